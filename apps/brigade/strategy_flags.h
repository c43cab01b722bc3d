#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/brigade/cluster_flags.h"
#include "apps/brigade/server_flags.h"
#include "apps/brigade/stage_flags.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"
#include "brigade/distribute/strategy.h"
#include "brigade/ps/parameter_server_strategy.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// What a training gives its strategy, if that has parameter servers.
struct ServerAccess {
  /// Ends waits for servers and other workers.
  concurrency::CancelToken cancel = {};
  /// Measures these waits.
  std::shared_ptr<ps::CallClock> calls = std::make_shared<ps::CallClock>();
  /// As ps::ParameterServerOptions.
  std::function<void(std::int64_t step)> on_job_in_progress = {};
};

/// What a process of a cluster does in a training.
enum class TaskRole { kTrains, kServes, kEvaluates };

/// Whether the launcher of a job with parameter servers has restarted this process: flags that
/// begin a new job were for its first life.
bool is_restarted_by_launcher();

/// The flags that choose the strategy and its devices.
struct StrategyFlags {
  std::string strategy = "one_device";
  std::string devices;
  std::string controller;
  bool log_device_placement = false;
  int threads_per_replica = 1;
  int logical_gpus = 1;
  int logical_replicas = 0;
  int audit_every = 0;
  bool allow_oversubscription = false;
  std::int64_t seed = 0;
  std::string precision = "full";
  std::string numerics = "reproducible";
  bool compile = false;
  ClusterFlags cluster;
  ServerFlags servers;
  StageFlags stages;

  void add_to(CLI::App& app);
  /// Throws UsageError for flags that cannot work, alone or together.
  void check() const;
  /// The strategy, with its replicas' threads running. Throws UsageError for flags that cannot
  /// work, and the strategy's errors for devices that do not fit.
  std::unique_ptr<distribute::Strategy> make(const ServerAccess& access = {}) const;
  /// What the precision asks of an optimizer: in fp16, a gradient scaler.
  distribute::OptimizerOptions optimizer_options() const;
  /// What this process's task does: an evaluator and a parameter server take no part in the
  /// strategy. Throws UsageError for an invalid description of the cluster.
  TaskRole role() const;
  /// Logs a warning if this process is one of several, as `brigade launch` and torchrun start them,
  /// and the strategy trains in each of them alone.
  void warn_if_alone() const;
  /// Throws UsageError if the strategy can only train: `does` says what it is asked for.
  void check_not_only_training(std::string_view does) const;
};

/// Whether the strategy trains in one process, whatever others there are.
bool has_one_process(const StrategyFlags& flags);
/// Whether the strategy keeps variables on a controller.
bool has_controller(const StrategyFlags& flags);
/// Whether the strategy may have logical replicas.
bool has_logical_replicas(const StrategyFlags& flags);
/// Whether a card may have several of the strategy's replicas.
bool has_logical_gpus(const StrategyFlags& flags);
/// Whether devices compute stages of the model.
bool has_stages(const StrategyFlags& flags);
/// The pipeline that `strategy` is; null: it is none.
const distribute::PipelineStrategy* pipeline_of(const distribute::Strategy& strategy);
/// Whether parameter servers keep the variables.
bool has_servers(const StrategyFlags& flags);

/// The short names of the devices of `strategy`, in replica order, or in that of the stages.
std::vector<std::string> device_names(const distribute::Strategy& strategy);

}  // namespace brigade::command

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/cluster/task.h"
#include "brigade/io/file_system.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server/open_store.h"
#include "brigade/ps/server/server_metrics.h"
#include "brigade/ps/store/parameter_store.h"

namespace brigade::ps {

/// What happens to a task's membership of a server.
enum class TaskChange {
  kJoined,
  kReplaced,  ///< a later incarnation joins
  kLost,      ///< it was silent for the length of its lease
  kFinished   ///< it left
};

struct ServerCoreOptions {
  /// The tasks that train, in the order of their ranks (`ClusterSpec::training_tasks`). The first
  /// is the chief.
  std::vector<cluster::Task> tasks;
  /// Whether this is `ps:0`.
  bool is_coordinator = true;
  /// A task that is silent for this long is lost.
  std::chrono::milliseconds lease = std::chrono::seconds(8);
  ParameterStoreOptions store;
  /// A snapshot is written when the log has grown by this much since the last.
  std::uint64_t snapshot_after_bytes = std::uint64_t{256} << 20;
  /// Called with each change of a membership, in any thread. May be empty; must not call the
  /// server.
  std::function<void(TaskChange, const cluster::Task&, std::int64_t incarnation)> on_change = {};
};

/// A parameter server without its network: who may call, the order of steps, and the store.
///
/// A job's first server, its coordinator, gives incarnations: a task joins it first, with
/// incarnation 0, and the others with what it got there. It also decides the steps of synchronous
/// training, so it takes no decision from its callers that it has not made.
///
/// Thread-safety: all functions from any thread. It starts one thread, which writes
/// snapshots. `begin_step` blocks its thread, by `clock`, and by the machine's clock until
/// its deadline.
class ServerCore final : public ParameterService {
 public:
  /// Opens the store, as `ParameterStore`. `clock` decides about leases and must outlive this.
  ServerCore(std::shared_ptr<io::FileSystem> files, const ServerCoreOptions& options,
             const base::Clock& clock);
  /// With a store that is open: `ServerCoreOptions::store` and `snapshot_after_bytes` are not used.
  ServerCore(OpenStore store, ServerCoreOptions options, const base::Clock& clock);
  ~ServerCore() override;
  /// Its store, for another server. No call may be in progress.
  static OpenStore release(std::unique_ptr<ServerCore> core);

  Grant join(const JoinRequest& request, Time deadline) override;
  ServerStatus renew(const std::string& token, Time deadline) override;
  void leave(const std::string& token, Time deadline) override;
  ServerStatus create(const std::string& token, const CreateRequest& request,
                      Time deadline) override;
  void assign(const std::string& token, const std::vector<NamedState>& variables, std::int64_t step,
              Time deadline) override;
  void set_ready(const std::string& token, Time deadline) override;
  void set_learning_rate(const std::string& token, double rate, Time deadline) override;
  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request,
                         Time deadline) override;
  StoredStates states(const std::string& token, const std::vector<std::string>& names,
                      Time deadline) override;
  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time deadline) override;

  /// `ParameterStore::moment`, for a replica.
  StoreMoment moment(const std::function<void(std::int64_t covered)>& begin);

  /// Ends leases that have run out. Call it when `next_expiry` has come, and at least every second.
  void tick();
  std::optional<Time> next_expiry() const;
  /// Whether the chief has left as finished, and has not joined again; after a restart, too.
  bool has_chief_finished() const;
  /// Whether the job is over: the chief has left as finished, nobody holds a lease, and nobody is
  /// expected (`coordination::TaskRegistry::is_finished`).
  bool is_finished() const;
  /// Why the server cannot continue: its disk has failed, or memory ran out in the middle of an
  /// update. Unset while it works. All calls then throw kUnavailable, since a server that is
  /// started again in its folder is whole.
  std::optional<std::string> failure() const;
  ServerStatus status() const;
  ServerCounters counters() const;
  ServerMetrics metrics() const;
  /// Wakes all blocked calls, which then throw kUnavailable; so do later ones.
  void close() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::ps

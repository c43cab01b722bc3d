#include "apps/brigade/strategy_flags.h"

#include <algorithm>
#include <map>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/interrupt.h"
#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/environment_variables.h"
#include "brigade/cluster/resolver.h"
#include "brigade/device/device.h"
#include "brigade/device/numerics.h"
#include "brigade/device/precision.h"
#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategies/pipeline_strategy.h"
#include "brigade/ps/server.h"
#include "brigade/tuning/freed_memory.h"

namespace brigade::command {
namespace {

std::vector<std::string> parse_devices(const std::string& text) {
  std::vector<std::string> names;
  if (base::trim(text).empty()) return names;
  for (const std::string& part : base::split(text, ',')) names.emplace_back(base::trim(part));
  return names;
}

/// The options with what all strategies take.
template <class Options>
Options with_common(Options options, const StrategyFlags& flags) {
  options.allow_oversubscription = flags.allow_oversubscription;
  options.seed = static_cast<std::uint64_t>(flags.seed);
  options.placement.log = flags.log_device_placement;
  options.threads_per_replica = flags.threads_per_replica;
  if constexpr (requires { options.logical_gpus_per_card; }) {
    options.logical_gpus_per_card = flags.logical_gpus;
  }
  if constexpr (requires { options.logical_replicas; }) {
    options.logical_replicas = flags.logical_replicas;
  }
  if constexpr (requires { options.audit_every; }) options.audit_every = flags.audit_every;
  return options;
}

std::unique_ptr<distribute::Strategy> make_one_device(const StrategyFlags& flags,
                                                      const ServerAccess&) {
  const std::vector<std::string> names = parse_devices(flags.devices);
  if (names.size() > 1) {
    throw UsageError("strategy one_device runs on one device, but --devices names ", names.size(),
                     "; use --strategy mirrored");
  }
  return std::make_unique<distribute::OneDeviceStrategy>(with_common(
      distribute::OneDeviceOptions{.device = names.empty() ? "" : names.front()}, flags));
}

std::unique_ptr<distribute::Strategy> make_mirrored(const StrategyFlags& flags,
                                                    const ServerAccess&) {
  return std::make_unique<distribute::MirroredStrategy>(
      with_common(distribute::MirroredOptions{.devices = parse_devices(flags.devices)}, flags));
}

std::unique_ptr<distribute::Strategy> make_central_storage(const StrategyFlags& flags,
                                                           const ServerAccess&) {
  return std::make_unique<distribute::CentralStorageStrategy>(
      with_common(distribute::CentralStorageOptions{.compute_devices = parse_devices(flags.devices),
                                                    .parameter_device = flags.controller,
                                                    .name = flags.strategy},
                  flags));
}

/// A strategy of several workers: waits for the others.
template <class WorkerStrategy, class Options>
std::unique_ptr<distribute::Strategy> join_workers(Options options, const StrategyFlags& flags) {
  flags.cluster.apply_to(options.join, options.communication);
  const cluster::ClusterConfig cluster = flags.cluster.resolve();
  const Interrupt interrupt;
  StartWatch watch(interrupt);
  options.join.cancel = watch.token();
  return watch.guard("the other workers",
                     [&] { return std::make_unique<WorkerStrategy>(cluster, std::move(options)); });
}

std::unique_ptr<distribute::Strategy> make_multi_worker_mirrored(const StrategyFlags& flags,
                                                                 const ServerAccess&) {
  return join_workers<distribute::MultiWorkerMirroredStrategy>(
      with_common(distribute::MultiWorkerMirroredOptions{.devices = parse_devices(flags.devices)},
                  flags),
      flags);
}

std::unique_ptr<distribute::Strategy> make_parameter_server(const StrategyFlags& flags,
                                                            const ServerAccess& access) {
  auto options =
      with_common(ps::ParameterServerOptions{.devices = parse_devices(flags.devices)}, flags);
  options.key = flags.cluster.key();
  options.cancel = access.cancel;
  options.calls = access.calls;
  options.on_job_in_progress = access.on_job_in_progress;
  const cluster::ClusterConfig cluster = flags.cluster.resolve();
  tuning::return_freed_memory();
  flags.servers.apply_to(options, cluster.cluster.num_tasks("ps"));
  const Interrupt interrupt;
  StartWatch watch(interrupt, {.token = access.cancel});
  return watch.guard("the parameter servers", [&] {
    return std::make_unique<ps::ParameterServerStrategy>(cluster, options);
  });
}

std::unique_ptr<distribute::Strategy> make_pipeline(const StrategyFlags& flags,
                                                    const ServerAccess&) {
  auto options = with_common(
      distribute::PipelineStrategyOptions{.devices = parse_devices(flags.devices)}, flags);
  flags.stages.apply_to(options);
  return join_workers<distribute::PipelineStrategy>(std::move(options), flags);
}

/// How many processes train.
int num_processes(const ClusterFlags& flags) {
  return set_up([&] { return flags.resolve(); }).world_size;
}

using Make = std::unique_ptr<distribute::Strategy> (*)(const StrategyFlags&, const ServerAccess&);

const std::map<std::string, Make>& strategy_makers() {
  static const std::map<std::string, Make> strategies = {
      {"central_storage", make_central_storage},
      {"mirrored", make_mirrored},
      {"multi_worker_mirrored", make_multi_worker_mirrored},
      {"one_device", make_one_device},
      {"parameter_server", make_parameter_server},
      {"pipeline", make_pipeline},
      {"towers", make_central_storage}};
  return strategies;
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : strategy_makers()) names.push_back(name);
  return names;
}

}  // namespace

void StrategyFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Strategy");
  group.add("--strategy", strategy,
            base::str_cat("The strategy: ", base::join(strategy_names(), ", ")));
  group.add("--devices", devices,
            "One replica on each: cpu:0,cpu:1 or /gpu:0 (one_device: the first GPU, or else cpu:0; "
            "pipeline: one stage on each; others: every GPU, or else every core)");
  group.add("--controller", controller,
            "Where variables live and are updated (central_storage, towers; default cpu:0, or the "
            "only device)");
  group.add_switch("--log-device-placement", log_device_placement,
                   "Log the device of each variable and layer, one line each");
  group.add("--threads-per-replica", threads_per_replica,
            "Threads of each replica on CPU; changes the last bits of the weights");
  group.add(
      "--logical-gpus", logical_gpus,
      "Logical GPUs of each card, which compute at the same time: --logical-gpus 2 makes gpu:0 and "
      "gpu:1 of one card (mirrored, multi_worker_mirrored, central_storage, towers)");
  group.add("--logical-replicas", logical_replicas,
            "Replicas of the whole job, of which each device computes several one after another: "
            "the weights depend on this number, and not on the devices and workers (one_device, "
            "mirrored, multi_worker_mirrored; default: one a device)");
  group.add("--audit-every", audit_every,
            "With --logical-replicas: every N-th step another worker computes one replica's "
            "gradients again, and the training fails, naming both hosts, if a bit differs "
            "(multi_worker_mirrored; default 0: never)");
  group.add_switch("--allow-oversubscription", allow_oversubscription,
                   "Allow any CPU index and number of threads, without a warning");
  group.add(
      "--precision", precision,
      base::str_cat("The precision of forward and backward passes: ",
                    base::join(device::precision_names(), ", "),
                    "; weights and updates are float32 in any case, and fp16 scales the loss"));
  group.add(
      "--numerics", numerics,
      base::str_cat(
          "How GPUs compute: ", base::join(device::numerics_names(), ", "),
          "; reproducible ones repeat to the bit, fast ones use TF32 and the fastest kernels"));
  group.add_switch("--compile", compile,
                   "Capture the step's kernels once and replay them, without the host's time for "
                   "each (one GPU: one_device, mirrored)");
  group.add("--seed", seed, "The root seed of all random numbers: weights, order, dropout, crops");
  stages.add_to(app);
  cluster.add_to(app);
  servers.add_to(app);
}

void StrategyFlags::check() const {
  check_choice("strategy", strategy, strategy_names());
  check_at_least("--threads-per-replica", threads_per_replica, 1);
  check_at_least("--logical-gpus", logical_gpus, 1);
  if (logical_gpus > 1 && !has_logical_gpus(*this)) {
    throw UsageError("strategy ", strategy,
                     " uses no logical GPUs; leave out --logical-gpus, or use --strategy mirrored, "
                     "multi_worker_mirrored, central_storage or towers");
  }
  check_at_least("--logical-replicas", logical_replicas, 0);
  if (logical_replicas > 0 && has_stages(*this)) {
    throw UsageError(
        "strategy pipeline has as many logical replicas as micro-batches; leave out "
        "--logical-replicas, and give --micro-batches");
  }
  if (logical_replicas > 0 && !has_logical_replicas(*this)) {
    throw UsageError("strategy ", strategy,
                     " has no logical replicas; leave out --logical-replicas, or use --strategy "
                     "one_device, mirrored or multi_worker_mirrored");
  }
  check_at_least("--audit-every", audit_every, 0);
  if (audit_every > 0 && strategy != "multi_worker_mirrored") {
    throw UsageError("strategy ", strategy,
                     " has no second worker that could compute gradients again; leave out "
                     "--audit-every, or use --strategy multi_worker_mirrored");
  }
  if (audit_every > 0 && logical_replicas == 0) {
    throw UsageError(
        "--audit-every compares bits that are equal on all workers only with logical replicas; "
        "give --logical-replicas, or leave out --audit-every");
  }
  check_choice("value of --precision", precision, device::precision_names());
  check_choice("value of --numerics", numerics, device::numerics_names());
  if (compile && strategy != "one_device" && strategy != "mirrored") {
    throw UsageError("strategy ", strategy,
                     " has no steps that --compile could capture; leave it out, or use --strategy "
                     "one_device on a GPU");
  }
  if (seed < 0) throw UsageError("--seed is ", seed, "; it must be at least 0");
  if (!controller.empty() && !has_controller(*this)) {
    throw UsageError(
        "strategy ", strategy,
        " has no controller; leave out --controller, or use --strategy central_storage or towers");
  }
  if (has_stages(*this)) {
    const int processes = num_processes(cluster);
    stages.check(parse_devices(devices), processes);
    if (processes == 1) cluster.check_no_collectives(strategy);
    cluster.check_full_values(strategy);
  } else {
    stages.check_none(strategy);
  }
  if (has_one_process(*this)) cluster.check_no_workers(strategy);
  if (!has_servers(*this)) return servers.check_none(strategy);
  servers.check();
  if (precision == "fp16" && servers.mode_name() == "sync") {
    throw UsageError(
        "--precision fp16 leaves out steps that overflow, for whose gradients the workers of "
        "--mode sync wait; use --precision bf16, or --mode async");
  }
  cluster.check_no_collectives(strategy);
}

namespace {

void check_can_capture(const distribute::Strategy& strategy) {
  const std::string obstacle = distribute::capture_obstacle(strategy);
  if (obstacle.empty()) return;
  throw UsageError(base::str_cat("--compile cannot work: ", obstacle,
                                 "; leave it out, or use one GPU (--devices gpu:0)"));
}

}  // namespace

std::unique_ptr<distribute::Strategy> StrategyFlags::make(const ServerAccess& access) const {
  check();
  return set_up([&] {
    try {
      auto made = strategy_makers().at(strategy)(*this, access);
      made->set_precision(device::precision_from(precision));
      made->set_numerics(device::numerics_from(numerics));
      if (compile) check_can_capture(*made);
      return made;
    } catch (const device::OversubscriptionError& error) {  // the library's errors name no flags
      throw UsageError(error.what(), " (--allow-oversubscription)");
    }
  });
}

distribute::OptimizerOptions StrategyFlags::optimizer_options() const {
  distribute::OptimizerOptions options;
  if (precision == "fp16") options.gradient_scaler.emplace();
  return options;
}

TaskRole StrategyFlags::role() const {
  if (strategy != "multi_worker_mirrored" && !has_servers(*this)) return TaskRole::kTrains;
  const cluster::ClusterConfig config = set_up([&] { return cluster.resolve(); });
  if (config.is_evaluator()) return TaskRole::kEvaluates;
  return has_servers(*this) && ps::is_server_task(config.task) ? TaskRole::kServes
                                                               : TaskRole::kTrains;
}

void StrategyFlags::warn_if_alone() const {
  if (!has_one_process(*this)) return;
  cluster::ClusterConfig config;
  try {
    config = cluster.resolve();
  } catch (const Error&) {
    return;  // a cluster that is not used need not be right
  }
  if (config.world_size < 2) return;
  base::log_warning(
      "This process is one of ", config.world_size, " (", config.source, "), and strategy ",
      strategy, " trains a separate model in each of them. To train one model, give --strategy ",
      "multi_worker_mirrored; for separate models, brigade launch --independent.");
}

void StrategyFlags::check_not_only_training(std::string_view does) const {
  if (!has_servers(*this)) return;
  throw UsageError("strategy ", strategy, " only trains; ", does,
                   " with --strategy one_device or mirrored");
}

bool is_restarted_by_launcher() {
  return base::environment(cluster::kGenerationVariable).value_or("0") != "0";
}

bool has_one_process(const StrategyFlags& flags) {
  return flags.strategy == "one_device" || flags.strategy == "mirrored" || has_controller(flags);
}

bool has_controller(const StrategyFlags& flags) {
  return flags.strategy == "central_storage" || flags.strategy == "towers";
}

bool has_stages(const StrategyFlags& flags) {
  return flags.strategy == "pipeline";
}

const distribute::PipelineStrategy* pipeline_of(const distribute::Strategy& strategy) {
  return dynamic_cast<const distribute::PipelineStrategy*>(&strategy);
}

bool has_servers(const StrategyFlags& flags) {
  return flags.strategy == "parameter_server";
}

bool has_logical_replicas(const StrategyFlags& flags) {
  return flags.strategy == "one_device" || flags.strategy == "mirrored" ||
         flags.strategy == "multi_worker_mirrored";
}

bool has_logical_gpus(const StrategyFlags& flags) {
  return flags.strategy == "mirrored" || flags.strategy == "multi_worker_mirrored" ||
         has_controller(flags);
}

std::vector<std::string> device_names(const distribute::Strategy& strategy) {
  std::vector<std::string> names;
  const distribute::PipelineStrategy* pipeline = pipeline_of(strategy);
  for (const device::Device& device : pipeline ? pipeline->stage_devices() : strategy.devices())
    names.push_back(device.name.to_string());
  // Each logical replica names its device.
  if (strategy.logical_replicas() > 0)
    names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace brigade::command

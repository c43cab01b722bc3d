#include "apps/brigade/strategy_flags.h"

#include <algorithm>
#include <map>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/interrupt.h"
#include "brigade/base/environment.h"
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
#include "brigade/variables/partitioner.h"

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

comm::WireDtype wire_type(const std::string& text) {
  check_choice("value of --wire", text, {"full", "bf16", "fp16"});
  if (text == "bf16") return comm::WireDtype::kBFloat16;
  return text == "fp16" ? comm::WireDtype::kFloat16 : comm::WireDtype::kFull;
}

/// Unset for "auto".
std::optional<std::int64_t> parse_bytes_per_pack(const std::string& text) {
  if (text == "auto") return std::nullopt;
  const auto bytes = base::parse_int(text);
  if (bytes && *bytes >= 0) return bytes;
  throw UsageError("--bytes-per-pack is ", base::quoted(text),
                   "; give a number of bytes, at least 0, or auto");
}

/// "fixed:2": two parts; "min-size:BYTES": as many as there are servers, but none smaller;
/// "max-size:BYTES": the fewest such that none is larger.
variables::Partitioner parse_partitioner(const std::string& text, int servers) {
  const std::vector<std::string> parts = base::split(text, ':');
  const auto number = parts.size() == 2 ? base::parse_int(parts[1]) : std::nullopt;
  if (number && *number >= 1) {
    if (parts[0] == "fixed") return variables::fixed_size_partitioner(*number);
    if (parts[0] == "min-size")
      return variables::min_max_variable_partitioner(
          {.max_parts = std::max(servers, 1), .min_part_bytes = *number});
    if (parts[0] == "max-size")
      return variables::variable_axis_size_partitioner({.max_part_bytes = *number});
  }
  throw UsageError(
      "--variable-partitioner is ", base::quoted(text),
      "; give fixed:PARTS, min-size:BYTES or max-size:BYTES, with a number of at least 1");
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

void StrategyFlags::check_not_only_training(std::string_view does) const {
  if (!has_servers(*this)) return;
  throw UsageError("strategy ", strategy, " only trains; ", does,
                   " with --strategy one_device or mirrored");
}

bool is_restarted_by_launcher() {
  return base::environment(cluster::kGenerationVariable).value_or("0") != "0";
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

void ClusterFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Cluster");
  group.add(
      "--cluster", cluster,
      "multi_worker_mirrored, parameter_server: the cluster's tasks: worker=a:1,b:1 or "
      "'ps=a:1;worker=b:1,c:1' or a JSON file (default: TF_CONFIG, or the launcher's environment)");
  group.add("--task", task, "Which task this process is: worker:1");
  group.add("--key-file", key_file,
            "The cluster's key; without it nothing is sent beyond this machine");
  group.add_seconds("--start-timeout", start_timeout_seconds,
                    "How long to wait until all workers have joined");
  group.add_seconds("--peer-timeout", peer_timeout_seconds,
                    "A worker that sends no heartbeat for so long is lost");
  group.add("--transport", transport,
            "Between processes: auto, shared_memory, gloo (tcp), mpi, nccl");
  group.add("--wire", wire, "Gradients between processes: full, bf16, fp16");
  group.add("--bytes-per-pack", bytes_per_pack,
            "Gradients are sent in buckets of so many bytes, while backward is running; 0: all "
            "together after it; auto: tuned in the first steps");
}

void ClusterFlags::apply_to(rpc::JoinOptions& join,
                            comm::CommunicationOptions& communication) const {
  join.start_timeout = to_milliseconds("--start-timeout", start_timeout_seconds);
  join.peer_timeout = to_milliseconds("--peer-timeout", peer_timeout_seconds);
  if (!key_file.empty()) join.key = key();
  communication.transport = comm::parse_transport(transport);
  communication.wire = wire_type(wire);
  communication.bytes_per_pack = parse_bytes_per_pack(bytes_per_pack);
}

cluster::ClusterConfig ClusterFlags::resolve() const {
  return cluster::resolve_cluster(cluster::process_environment(),
                                  {.cluster = cluster, .task = task});
}

std::optional<cluster::ClusterKey> ClusterFlags::key() const {
  if (key_file.empty()) return cluster::ClusterKey::from_environment();
  return cluster::ClusterKey::read(key_file);
}

void ClusterFlags::check_no_collectives(const std::string& strategy) const {
  const ClusterFlags defaults;
  for (const auto& [flag, is_given] :
       {std::pair("--transport", transport != defaults.transport),
        std::pair("--wire", wire != defaults.wire),
        std::pair("--bytes-per-pack", bytes_per_pack != defaults.bytes_per_pack)}) {
    if (!is_given) continue;
    throw UsageError("strategy ", strategy, " has no collectives; leave out ", flag,
                     ", or use --strategy multi_worker_mirrored");
  }
}

void ClusterFlags::check_full_values(const std::string& strategy) const {
  const ClusterFlags defaults;
  for (const auto& [flag, is_given] :
       {std::pair("--wire", wire != defaults.wire),
        std::pair("--bytes-per-pack", bytes_per_pack != defaults.bytes_per_pack)}) {
    if (!is_given) continue;
    throw UsageError("strategy ", strategy, " sends activations, as they are; leave out ", flag,
                     ", or use --strategy multi_worker_mirrored");
  }
}

void ServerFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Parameter servers");
  group.add("--mode", mode,
            "When the workers' updates are applied: async (each when it arrives), ssp (no worker "
            "is more than --staleness steps ahead of the slowest), sync (the gradients of all "
            "workers together) (default async)");
  group.add("--staleness", staleness,
            "ssp: by how many steps a worker may be ahead of the slowest");
  group.add_switch("--staleness-aware-rate", staleness_aware_rate,
                   "async, ssp: divides the learning rate of an update by the number of other "
                   "workers' updates that its gradients do not know");
  group.add("--backup-workers", backup_workers,
            "sync: how many workers a step does not wait for (default 0)");
  group.add("--variable-partitioner", variable_partitioner,
            "Divides variables into parts on several servers: fixed:PARTS, min-size:BYTES (a part "
            "for each server, none smaller), max-size:BYTES (default: none is divided)");
  group.add("--push-dtype", push_dtype,
            "bfloat16: rounds gradients before they are sent, which halves what pushes and the "
            "servers' logs take (default full: as they are)");
  group.add("--server-transport", transport,
            "How gradients and values travel: auto (shared memory to servers on this host), or tcp "
            "(default auto)");
  group.add_switch("--wait-for-disk", wait_for_disk,
                   "async, ssp: a step waits until its update is on the servers' disks, not only "
                   "until the one before it is");
  group.add_seconds(
      "--server-timeout", server_timeout_seconds,
      "How long a parameter server may be away before its workers give up (default 300)");
}

void ServerFlags::check() const {
  check_choice("value of --mode", mode_name(), {"async", "ssp", "sync"});
  if (staleness) check_at_least("--staleness", *staleness, 0);
  if (backup_workers) check_at_least("--backup-workers", *backup_workers, 0);
  if (staleness && mode_name() != "ssp") {
    throw UsageError("--staleness is for --mode ssp, but --mode is ", mode_name(),
                     "; leave out one of them");
  }
  if (!staleness && mode_name() == "ssp")
    throw UsageError("--mode ssp needs --staleness, such as --staleness 4");
  if (staleness_aware_rate && mode_name() == "sync")
    throw UsageError(
        "--staleness-aware-rate is for --mode async and ssp, but --mode is sync, whose updates are "
        "never stale; leave out one of them");
  if (backup_workers && mode_name() != "sync") {
    throw UsageError("--backup-workers is for --mode sync, but --mode is ", mode_name(),
                     "; leave out one of them");
  }
  if (variable_partitioner) parse_partitioner(*variable_partitioner, 1);
  if (push_dtype) check_choice("value of --push-dtype", *push_dtype, {"full", "bfloat16"});
  if (transport) check_choice("value of --server-transport", *transport, {"auto", "tcp"});
  if (server_timeout_seconds) to_milliseconds("--server-timeout", *server_timeout_seconds);
}

void ServerFlags::check_none(const std::string& strategy) const {
  for (const auto& [flag, is_given] :
       {std::pair("--mode", mode.has_value()), std::pair("--staleness", staleness.has_value()),
        std::pair("--staleness-aware-rate", staleness_aware_rate),
        std::pair("--backup-workers", backup_workers.has_value()),
        std::pair("--variable-partitioner", variable_partitioner.has_value()),
        std::pair("--push-dtype", push_dtype.has_value()),
        std::pair("--server-transport", transport.has_value()),
        std::pair("--wait-for-disk", wait_for_disk),
        std::pair("--server-timeout", server_timeout_seconds.has_value())}) {
    if (!is_given) continue;
    throw UsageError("strategy ", strategy, " has no parameter servers; leave out ", flag,
                     ", or use --strategy parameter_server");
  }
}

void ServerFlags::apply_to(ps::ParameterServerOptions& options, int servers) const {
  if (mode_name() == "ssp") options.mode = ps::UpdateMode::kBounded;
  if (mode_name() == "sync") options.mode = ps::UpdateMode::kSync;
  options.staleness = staleness.value_or(0);
  options.staleness_aware = staleness_aware_rate;
  options.backup_workers = static_cast<int>(backup_workers.value_or(0));
  if (variable_partitioner)
    options.variable_partitioner = parse_partitioner(*variable_partitioner, servers);
  if (push_dtype == "bfloat16") options.push_dtype = at::kBFloat16;
  options.shared_memory = transport != "tcp";
  options.wait_for_disk = wait_for_disk;
  if (server_timeout_seconds)
    options.server_timeout = to_milliseconds("--server-timeout", *server_timeout_seconds);
}

}  // namespace brigade::command

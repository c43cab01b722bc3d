#include "apps/brigade/strategy_flags.h"

#include <map>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/flag_values.h"
#include "apps/brigade/interrupt.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/resolver.h"
#include "brigade/device/device.h"
#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"
#include "brigade/distribute/strategies/one_device_strategy.h"

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
  if constexpr (requires { options.threads_per_replica; }) {
    options.threads_per_replica = flags.threads_per_replica;
  }
  return options;
}

std::unique_ptr<distribute::Strategy> make_one_device(const StrategyFlags& flags) {
  const std::vector<std::string> names = parse_devices(flags.devices);
  if (names.size() > 1) {
    throw UsageError(base::str_cat("strategy one_device runs on one device, but --devices names ",
                                   names.size(), "; use --strategy mirrored"));
  }
  return std::make_unique<distribute::OneDeviceStrategy>(
      with_common(distribute::OneDeviceOptions{.device = names.empty() ? "" : names.front(),
                                               .threads = flags.threads_per_replica},
                  flags));
}

std::unique_ptr<distribute::Strategy> make_mirrored(const StrategyFlags& flags) {
  return std::make_unique<distribute::MirroredStrategy>(
      with_common(distribute::MirroredOptions{.devices = parse_devices(flags.devices)}, flags));
}

std::unique_ptr<distribute::Strategy> make_central_storage(const StrategyFlags& flags) {
  return std::make_unique<distribute::CentralStorageStrategy>(
      with_common(distribute::CentralStorageOptions{.compute_devices = parse_devices(flags.devices),
                                                    .parameter_device = flags.controller,
                                                    .name = flags.strategy},
                  flags));
}

std::unique_ptr<distribute::Strategy> make_multi_worker_mirrored(const StrategyFlags& flags) {
  auto options = with_common(
      distribute::MultiWorkerMirroredOptions{.devices = parse_devices(flags.devices)}, flags);
  flags.cluster.apply_to(options);
  const cluster::ClusterConfig cluster = flags.cluster.resolve();
  const Interrupt interrupt;
  StartWatch watch(interrupt);
  options.join.cancel = watch.token();
  return watch.guard("the other workers", [&] {
    return std::make_unique<distribute::MultiWorkerMirroredStrategy>(cluster, options);
  });
}

using Make = std::unique_ptr<distribute::Strategy> (*)(const StrategyFlags&);

const std::map<std::string, Make>& strategy_makers() {
  static const std::map<std::string, Make> strategies = {
      {"central_storage", make_central_storage},
      {"mirrored", make_mirrored},
      {"multi_worker_mirrored", make_multi_worker_mirrored},
      {"one_device", make_one_device},
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
  throw UsageError(base::str_cat("--bytes-per-pack is ", base::quoted(text),
                                 "; give a number of bytes, at least 0, or auto"));
}

}  // namespace

void StrategyFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Strategy");
  group.add("--strategy", strategy,
            base::str_cat("The strategy: ", base::join(strategy_names(), ", ")));
  group.add("--devices", devices,
            "One replica on each: cpu:0,cpu:1 or /gpu:0 (one_device: the first GPU, or else "
            "cpu:0; others: every GPU, or else every core)");
  group.add("--controller", controller,
            "Where variables live and are updated (central_storage, towers; default cpu:0, or "
            "the only device)");
  group.add_switch("--log-device-placement", log_device_placement,
                   "Log the device of each variable and layer, one line each");
  group.add("--threads-per-replica", threads_per_replica,
            "Threads of each replica on CPU; changes the last bits of the weights");
  group.add_switch("--allow-oversubscription", allow_oversubscription,
                   "Allow any CPU index and number of threads, without a warning");
  group.add("--seed", seed, "The root seed of all random numbers: weights, order, dropout, crops");
  cluster.add_to(app);
}

std::unique_ptr<distribute::Strategy> StrategyFlags::make() const {
  check_choice("strategy", strategy, strategy_names());
  check_at_least("--threads-per-replica", threads_per_replica, 1);
  if (seed < 0) throw UsageError(base::str_cat("--seed is ", seed, "; it must be at least 0"));
  if (!controller.empty() && !has_controller(*this)) {
    throw UsageError(base::str_cat("strategy ", strategy,
                                   " has no controller; leave out --controller, or use --strategy "
                                   "central_storage or towers"));
  }
  return set_up([&] {
    try {
      return strategy_makers().at(strategy)(*this);
    } catch (const device::OversubscriptionError& error) {  // the library's errors name no flags
      throw UsageError(base::str_cat(error.what(), " (--allow-oversubscription)"));
    }
  });
}

bool StrategyFlags::is_evaluator() const {
  if (strategy != "multi_worker_mirrored") return false;
  return set_up([&] { return cluster.resolve().is_evaluator(); });
}

bool has_controller(const StrategyFlags& flags) {
  return flags.strategy == "central_storage" || flags.strategy == "towers";
}

std::vector<std::string> device_names(const distribute::Strategy& strategy) {
  std::vector<std::string> names;
  for (const device::Device& device : strategy.devices()) names.push_back(device.name.to_string());
  return names;
}

void ClusterFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Cluster");
  group.add("--cluster", cluster,
            "multi_worker_mirrored: the cluster's tasks: worker=a:1,b:1 or a JSON file "
            "(default: TF_CONFIG, or the launcher's environment)");
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

void ClusterFlags::apply_to(distribute::MultiWorkerMirroredOptions& options) const {
  options.join.start_timeout = to_milliseconds("--start-timeout", start_timeout_seconds);
  options.join.peer_timeout = to_milliseconds("--peer-timeout", peer_timeout_seconds);
  if (!key_file.empty()) options.join.key = cluster::ClusterKey::read(key_file);
  options.communication.transport = comm::parse_transport(transport);
  options.communication.wire = wire_type(wire);
  options.communication.bytes_per_pack = parse_bytes_per_pack(bytes_per_pack);
}

cluster::ClusterConfig ClusterFlags::resolve() const {
  return cluster::resolve_cluster(cluster::process_environment(),
                                  {.cluster = cluster, .task = task});
}

}  // namespace brigade::command

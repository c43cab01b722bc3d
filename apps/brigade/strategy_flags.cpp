#include "apps/brigade/strategy_flags.h"

#include <CLI/CLI.hpp>
#include <map>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/start_watch.h"
#include "brigade/base/strings.h"
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

device::Oversubscription oversubscription(const StrategyFlags& flags) {
  return flags.allow_oversubscription ? device::Oversubscription::kAllow
                                      : device::Oversubscription::kRefuse;
}

device::PlacementOptions placement(const StrategyFlags& flags) {
  return {.log =
              flags.log_device_placement ? device::PlacementLog::kOn : device::PlacementLog::kOff};
}

std::unique_ptr<distribute::Strategy> make_one_device(const StrategyFlags& flags) {
  const std::vector<std::string> names = parse_devices(flags.devices);
  if (names.size() > 1) {
    throw UsageError(base::str_cat("strategy one_device runs on one device, but --devices names ",
                                   names.size(), "; use --strategy mirrored"));
  }
  return std::make_unique<distribute::OneDeviceStrategy>(
      distribute::OneDeviceOptions{.device = names.empty() ? "" : names.front(),
                                   .threads = flags.threads_per_replica,
                                   .oversubscription = oversubscription(flags),
                                   .seed = static_cast<std::uint64_t>(flags.seed),
                                   .placement = placement(flags)});
}

std::unique_ptr<distribute::Strategy> make_mirrored(const StrategyFlags& flags) {
  return std::make_unique<distribute::MirroredStrategy>(
      distribute::MirroredOptions{.devices = parse_devices(flags.devices),
                                  .threads_per_replica = flags.threads_per_replica,
                                  .oversubscription = oversubscription(flags),
                                  .seed = static_cast<std::uint64_t>(flags.seed),
                                  .placement = placement(flags)});
}

std::unique_ptr<distribute::Strategy> make_central_storage(const StrategyFlags& flags) {
  return std::make_unique<distribute::CentralStorageStrategy>(
      distribute::CentralStorageOptions{.compute_devices = parse_devices(flags.devices),
                                        .parameter_device = flags.controller,
                                        .threads_per_replica = flags.threads_per_replica,
                                        .oversubscription = oversubscription(flags),
                                        .seed = static_cast<std::uint64_t>(flags.seed),
                                        .name = flags.strategy,
                                        .placement = placement(flags)});
}

std::unique_ptr<distribute::Strategy> make_multi_worker_mirrored(const StrategyFlags& flags) {
  distribute::MultiWorkerMirroredOptions options{.devices = parse_devices(flags.devices),
                                                 .threads_per_replica = flags.threads_per_replica,
                                                 .oversubscription = oversubscription(flags),
                                                 .seed = static_cast<std::uint64_t>(flags.seed),
                                                 .placement = placement(flags)};
  flags.cluster.apply_to(options);
  const cluster::ClusterConfig cluster = flags.cluster.resolve();
  StartWatch watch;
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

}  // namespace

void StrategyFlags::add_to(CLI::App& app) {
  app.add_option("--strategy", strategy,
                 base::str_cat("The strategy: ", base::join(strategy_names(), ", ")))
      ->capture_default_str()
      ->group("Strategy");
  app.add_option("--devices", devices,
                 "One replica on each: cpu:0,cpu:1 or /gpu:0 (one_device: the first GPU, or else "
                 "cpu:0; others: every GPU, or else every core)")
      ->group("Strategy");
  app.add_option("--controller", controller,
                 "Where variables live and are updated (central_storage, towers; default cpu:0, or "
                 "the only device)")
      ->group("Strategy");
  app.add_flag("--log-device-placement", log_device_placement,
               "Log the device of each variable and layer, one line each")
      ->group("Strategy");
  app.add_option("--threads-per-replica", threads_per_replica,
                 "Threads of each replica on CPU; changes the last bits of the weights")
      ->capture_default_str()
      ->group("Strategy");
  app.add_flag("--allow-oversubscription", allow_oversubscription,
               "Allow more CPU replicas than cores")
      ->group("Strategy");
  app.add_option("--seed", seed,
                 "The root seed of all random numbers: weights, order, dropout, crops")
      ->capture_default_str()
      ->group("Strategy");
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
  return set_up([&] { return strategy_makers().at(strategy)(*this); });
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

}  // namespace brigade::command

#include "apps/brigade/strategy_flags.h"

#include <CLI/CLI.hpp>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/exit_code.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/mirrored_strategy.h"
#include "brigade/distribute/one_device_strategy.h"

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
                                   .seed = static_cast<std::uint64_t>(flags.seed)});
}

std::unique_ptr<distribute::Strategy> make_mirrored(const StrategyFlags& flags) {
  return std::make_unique<distribute::MirroredStrategy>(
      distribute::MirroredOptions{.devices = parse_devices(flags.devices),
                                  .threads_per_replica = flags.threads_per_replica,
                                  .oversubscription = oversubscription(flags),
                                  .seed = static_cast<std::uint64_t>(flags.seed)});
}

}  // namespace

void StrategyFlags::add_to(CLI::App& app) {
  app.add_option("--strategy", strategy, "Who runs: one_device, mirrored")
      ->capture_default_str()
      ->group("Strategy");
  app.add_option("--devices", devices,
                 "One replica on each: cpu:0,cpu:1 or /gpu:0 (mirrored: every GPU, or else every "
                 "core; one_device: the first GPU, or else cpu:0)")
      ->group("Strategy");
  app.add_option("--threads-per-replica", threads_per_replica,
                 "Threads of each replica on CPU; changes the last bits of the weights")
      ->capture_default_str()
      ->group("Strategy");
  app.add_flag("--allow-oversubscription", allow_oversubscription,
               "Let replicas on CPU share cores")
      ->group("Strategy");
  app.add_option("--seed", seed, "The root of all randomness: weights, order, dropout, crops")
      ->capture_default_str()
      ->group("Strategy");
}

std::unique_ptr<distribute::Strategy> StrategyFlags::make() const {
  check_choice("strategy", strategy, {"one_device", "mirrored"});
  check_at_least("--threads-per-replica", threads_per_replica, 1);
  if (seed < 0) throw UsageError(base::str_cat("--seed is ", seed, "; it must be at least 0"));
  return set_up(
      [&] { return strategy == "mirrored" ? make_mirrored(*this) : make_one_device(*this); });
}

std::vector<std::string> device_names(const distribute::Strategy& strategy) {
  std::vector<std::string> names;
  for (const device::Device& device : strategy.devices()) names.push_back(device.name.to_string());
  return names;
}

}  // namespace brigade::command

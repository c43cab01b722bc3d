#include <brigade/brigade.h>

#include <concepts>
#include <cstdint>

#include "documented_names.inc"

// What all strategies take has one name and one type everywhere.
template <class T>
concept HasCommonOptions = requires(T options) {
  { options.threads_per_replica } -> std::same_as<int&>;
  { options.allow_oversubscription } -> std::same_as<bool&>;
  { options.seed } -> std::same_as<std::uint64_t&>;
  { options.placement } -> std::same_as<brigade::device::PlacementOptions&>;
};
static_assert(HasCommonOptions<brigade::OneDeviceOptions>);
static_assert(HasCommonOptions<brigade::MirroredOptions>);
static_assert(HasCommonOptions<brigade::CentralStorageOptions>);
static_assert(HasCommonOptions<brigade::MultiWorkerMirroredOptions>);
static_assert(HasCommonOptions<brigade::ParameterServerOptions>);
static_assert(HasCommonOptions<brigade::PipelineStrategyOptions>);
static_assert(HasCommonOptions<brigade::IndependentOptions>);
static_assert(HasCommonOptions<brigade::TowerOptions>);

// What options in braces mean must be plain to every compiler: each is a program's first line.
[[maybe_unused]] static void strategies_from_braces() {
  const brigade::OneDeviceStrategy one({.device = "cpu:0", .threads_per_replica = 2});
  const brigade::MirroredStrategy mirrored({.devices = {"cpu:0", "cpu:1"}});
  const brigade::MirroredStrategy with_seed({.seed = 1});
  const brigade::CentralStorageStrategy central({.compute_devices = {"cpu:0"}});
  const brigade::MultiWorkerMirroredStrategy workers({.seed = 1});
  const brigade::ParameterServerStrategy pushing({.mode = brigade::UpdateMode::kSync});
}

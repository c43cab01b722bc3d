#include <brigade/brigade.h>

#include "documented_names.inc"

// What options in braces mean must be plain to every compiler: each is a program's first line.
[[maybe_unused]] static void strategies_from_braces() {
  const brigade::OneDeviceStrategy one({.device = "cpu:0", .threads = 2});
  const brigade::MirroredStrategy mirrored({.devices = {"cpu:0", "cpu:1"}});
  const brigade::MirroredStrategy with_seed({.seed = 1});
  const brigade::CentralStorageStrategy central({.compute_devices = {"cpu:0"}});
  const brigade::MultiWorkerMirroredStrategy workers({.seed = 1});
  const brigade::ParameterServerStrategy pushing({.mode = brigade::UpdateMode::kSync});
}

#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "brigade/device/device.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

/// Options of OneDeviceStrategy. The defaults use the first GPU, or else one core.
struct OneDeviceOptions {
  /// The device, in TensorFlow's or libtorch's spelling. Empty: the first GPU; without a GPU,
  /// "cpu:0".
  std::string device = {};
  /// The number of threads of one tensor operation on CPU.
  int threads_per_replica = 1;
  /// Whether a CPU may have more threads, or a higher number, than there are cores for.
  bool allow_oversubscription = false;
  /// The number of logical replicas: batches are split, random numbers drawn, and gradients added
  /// by logical replica, and the device computes them one after another. Results then
  /// equal, to the bit, those of the same number of logical replicas on other devices (on CPUs with
  /// the same instructions and threads a replica). 0: one.
  int logical_replicas = 0;
  /// The seed of all randomness of the job.
  std::uint64_t seed = 0;
  /// What happens if a device scope names a device that does not exist; the placement log.
  device::PlacementOptions placement = {};
};

/// Variables, input and steps on one device. Use it to develop a program that will later run on
/// many devices, and as a baseline: it adds almost no time to a hand-written loop, and steps run on
/// the calling thread. TensorFlow: tf.distribute.OneDeviceStrategy.
///
/// Thread-safety: see Strategy.
class OneDeviceStrategy : public Strategy {
 public:
  /// Throws as `device::resolve_devices` if the device does not exist.
  explicit OneDeviceStrategy(OneDeviceOptions options = {});
  /// `OneDeviceStrategy("gpu:0")`. A template, because a plain string would make
  /// `OneDeviceStrategy({.device = "gpu:0"})` ambiguous: GCC takes braces for a string as well.
  template <std::convertible_to<std::string> Device>
  explicit OneDeviceStrategy(const Device& device)
      : OneDeviceStrategy(OneDeviceOptions{.device = std::string(device)}) {}
};

}  // namespace brigade::distribute

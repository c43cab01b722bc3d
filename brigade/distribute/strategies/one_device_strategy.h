#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "brigade/device/device.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

struct OneDeviceOptions {
  /// In TensorFlow's or libtorch's spelling. Empty: the first GPU, and without one, "cpu:0".
  std::string device = {};
  /// Threads of one tensor operation on CPU.
  int threads = 1;
  /// Whether a CPU may have more threads, or a higher number, than there are cores for.
  device::Oversubscription oversubscription = device::Oversubscription::kRefuse;
  /// The root of all randomness of the job.
  std::uint64_t seed = 0;
  /// What happens where a device scope names a device that does not exist, and the placement log.
  device::PlacementOptions placement = {};
};

/// Everything on one device: variables, input, the step. Choose it to develop a program that will
/// later run on many devices, and to compare with: it adds next to nothing to a hand-written loop,
/// and the step runs on the calling thread. TensorFlow: tf.distribute.OneDeviceStrategy.
///
/// Thread-safety: see Strategy.
class OneDeviceStrategy : public Strategy {
 public:
  /// Throws as `device::resolve_devices` for a device that does not exist.
  explicit OneDeviceStrategy(OneDeviceOptions options = {});
  /// `OneDeviceStrategy("gpu:0")`. A template, since a plain string would make
  /// `OneDeviceStrategy({.device = "gpu:0"})` ambiguous: GCC takes braces for a string as well.
  template <std::convertible_to<std::string> Device>
  explicit OneDeviceStrategy(const Device& device)
      : OneDeviceStrategy(OneDeviceOptions{.device = std::string(device)}) {}
};

}  // namespace brigade::distribute

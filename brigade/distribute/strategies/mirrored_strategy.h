#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/comm/cross_device_ops.h"
#include "brigade/device/device.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

struct MirroredOptions {
  /// One replica on each, in TensorFlow's or libtorch's spelling: {"cpu:0", "/gpu:1"}. Empty: every
  /// visible GPU, and without one, a logical CPU for every core this process may use. CPUs and GPUs
  /// must not be mixed.
  std::vector<std::string> devices = {};
  /// Threads, and cores, of each replica on CPU. Its value changes the order of additions, and so
  /// the last bits.
  int threads_per_replica = 1;
  /// Replicas on each GPU, when `devices` is empty or names more GPUs than there are cards.
  int logical_gpus_per_card = 1;
  /// Whether replicas on CPU may share cores.
  device::Oversubscription oversubscription = device::Oversubscription::kRefuse;
  /// The root of all randomness of the job.
  std::uint64_t seed = 0;
  /// A collective that a replica does not reach within this time fails and names it.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How gradients are added up. Unset, which is the quickest: on CPU in the replicas' memory, by
  /// shares; on GPUs by all-reduce, through NCCL where it is built in.
  std::shared_ptr<const comm::CrossDeviceOps> cross_device_ops = nullptr;
  /// What happens where a device scope names a device that does not exist, and the placement log.
  device::PlacementOptions placement = {};
};

/// Synchronous training on several devices of one machine: every replica holds the model, computes
/// the gradients of its share of the global batch, and all update together. Choose it whenever the
/// model fits one device.
///
/// On CPU the replicas are threads on one copy of the parameters: nothing is sent, each reduces and
/// updates its share of the elements. On GPUs each has its copy, and gradients are all-reduced.
/// TensorFlow: tf.distribute.MirroredStrategy.
///
/// Thread-safety: see Strategy.
class MirroredStrategy : public Strategy {
 public:
  /// On every visible GPU, or every core. Throws as `device::resolve_devices` for devices that do
  /// not fit, and kInvalidArgument for a mix of CPUs and GPUs.
  explicit MirroredStrategy(MirroredOptions options = {});
  /// On these: `MirroredStrategy({"gpu:0", "gpu:1"})`. Templates, since a plain vector would make
  /// `MirroredStrategy({.seed = 1})` ambiguous: GCC takes braces for a vector as well.
  template <std::convertible_to<std::string> Device, std::size_t N>
  explicit MirroredStrategy(const Device (&devices)[N])
      : MirroredStrategy(std::vector<std::string>(devices, devices + N)) {}
  template <std::same_as<std::vector<std::string>> Devices>
  explicit MirroredStrategy(Devices devices)
      : MirroredStrategy(MirroredOptions{.devices = std::move(devices)}) {}
};

}  // namespace brigade::distribute

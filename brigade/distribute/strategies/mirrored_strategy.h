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

/// Options of MirroredStrategy. The defaults use all GPUs, or all cores.
struct MirroredOptions {
  /// The devices that run replicas, one replica on each, in TensorFlow's or libtorch's spelling:
  /// {"cpu:0", "/gpu:1"}. Empty: every visible GPU; without a GPU, a logical CPU for every core
  /// that this process may use. CPUs and GPUs must not be mixed.
  std::vector<std::string> devices = {};
  /// The number of threads and cores of each replica on CPU. It changes the order of additions, and
  /// so the last bits of results.
  int threads_per_replica = 1;
  /// The number of replicas on each GPU, if `devices` is empty or names more GPUs than exist.
  int logical_gpus_per_card = 1;
  /// Allows more replicas on CPU than cores without a warning; see `device::DiscoveryOptions`.
  bool allow_oversubscription = false;
  /// The number of logical replicas: batches are split, random numbers drawn, and gradients added
  /// by logical replica, and each device computes several of them one after another. Results then
  /// depend, to the bit, on this number and no longer on how many devices compute it (on CPUs with
  /// the same instructions and threads a replica). 0: one a device. At least one a device.
  int logical_replicas = 0;
  /// The seed of all randomness of the job.
  std::uint64_t seed = 0;
  /// A collective fails, naming the replica, if a replica does not join it within this time.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How gradients are summed. Unset is the fastest way: on CPU each replica sums a part of the
  /// elements in shared memory; on GPUs by all-reduce, with NCCL if it is built in.
  std::shared_ptr<const comm::CrossDeviceOps> cross_device_ops = nullptr;
  /// What happens if a device scope names a device that does not exist; the placement log.
  device::PlacementOptions placement = {};
};

/// Synchronous training on several devices of one machine: every replica has the model, computes
/// the gradients of its part of the global batch, and all replicas update together. Use it if the
/// model fits on one device.
///
/// On CPU the replicas are threads with one shared copy of the parameters: nothing is transferred,
/// and each replica reduces and updates a part of the elements. On GPUs each replica has its own
/// copy, and gradients are all-reduced. TensorFlow: tf.distribute.MirroredStrategy.
///
/// Thread-safety: see Strategy.
class MirroredStrategy : public Strategy {
 public:
  /// Uses every visible GPU, or every core. Throws as `device::resolve_devices` for invalid
  /// devices, and kInvalidArgument for a mix of CPUs and GPUs.
  explicit MirroredStrategy(MirroredOptions options = {});
  /// Uses these devices: `MirroredStrategy({"gpu:0", "gpu:1"})`. Templates, because a plain vector
  /// would make `MirroredStrategy({.seed = 1})` ambiguous: GCC takes braces for a vector as well.
  template <std::convertible_to<std::string> Device, std::size_t N>
  explicit MirroredStrategy(const Device (&devices)[N])
      : MirroredStrategy(std::vector<std::string>(devices, devices + N)) {}
  template <std::same_as<std::vector<std::string>> Devices>
  explicit MirroredStrategy(Devices devices)
      : MirroredStrategy(MirroredOptions{.devices = std::move(devices)}) {}
};

}  // namespace brigade::distribute

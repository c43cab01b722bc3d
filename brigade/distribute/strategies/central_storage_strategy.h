#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/comm/cross_device_ops.h"
#include "brigade/device/device.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/strategy.h"
#include "brigade/variables/variable_storage.h"

namespace brigade::distribute {

/// Options of CentralStorageStrategy. The defaults suit one machine with several devices.
struct CentralStorageOptions {
  /// The devices that run replicas, one replica on each, in TensorFlow's or libtorch's spelling.
  /// CPUs and GPUs may be mixed. Empty: every visible GPU; without a GPU, a logical CPU for every
  /// core that this process may use.
  std::vector<std::string> compute_devices = {};
  /// The device of the variables and the optimizer's slots: "cpu:0", "gpu:0". Empty: the compute
  /// device if there is only one, otherwise "cpu:0".
  std::string parameter_device = {};
  /// How gradients are summed. Unset: on a CPU each replica's thread sums a part of the elements;
  /// on a GPU by `comm::ReductionToOneDevice`.
  std::shared_ptr<const comm::CrossDeviceOps> cross_device_ops = nullptr;
  /// Which replicas read a copy of the variables instead of the variables themselves.
  variables::Caching caching = variables::Caching::kWhereNeeded;
  /// The number of threads and cores of each replica on CPU. It changes the order of additions, and
  /// so the last bits of results.
  int threads_per_replica = 1;
  /// The number of replicas on each GPU, if `compute_devices` is empty or names more GPUs than
  /// exist.
  int logical_gpus_per_card = 1;
  /// Allows more replicas on CPU than cores without a warning; see `device::DiscoveryOptions`.
  bool allow_oversubscription = false;
  /// The seed of all randomness of the job.
  std::uint64_t seed = 0;
  /// A collective fails, naming the replica, if a replica does not join it within this time.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// The name of the strategy in messages.
  std::string name = "central_storage";
  /// What happens if a device scope names a device that does not exist; the placement log.
  device::PlacementOptions placement = {};
};

/// Synchronous training with one copy of the variables and optimizer slots, on a controller.
/// Replicas on other devices read a cached copy, fetched once per step in one transfer, and send
/// their gradients to the controller. Use it if the optimizer slots do not fit beside the model on
/// each GPU, or if a dedicated device should hold the weights. Otherwise MirroredStrategy transfers
/// less and is faster on GPUs. On CPU both do the same work. TensorFlow:
/// tf.distribute.CentralStorageStrategy.
///
/// Variables that are not trained have one component per replica, as in every strategy. Of a
/// model's batch statistics, replica 0's are used, as with towers; metrics are summed over the
/// replicas.
///
/// Thread-safety: see Strategy.
class CentralStorageStrategy : public Strategy {
 public:
  /// Throws as `device::resolve_devices` for invalid devices. Logs a warning if the controller is a
  /// GPU that some replica's GPU can only reach through the host.
  explicit CentralStorageStrategy(CentralStorageOptions options = {});
};

}  // namespace brigade::distribute

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
#include "brigade/variables/flat_storage.h"

namespace brigade::distribute {

struct CentralStorageOptions {
  /// One replica on each, in TensorFlow's or libtorch's spelling. CPUs and GPUs may be mixed.
  /// Empty: every visible GPU, and without one, a logical CPU for every core this process may use.
  std::vector<std::string> compute_devices = {};
  /// Where the variables and the optimizer's slots live: "cpu:0", "gpu:0". Empty: the compute
  /// device if there is only one, else "cpu:0".
  std::string parameter_device = {};
  /// How gradients are added up. Unset: on a CPU in shares by the replicas' threads, on a GPU by
  /// `comm::ReductionToOneDevice`.
  std::shared_ptr<const comm::CrossDeviceOps> cross_device_ops = nullptr;
  /// Which replicas read a copy of the variables instead of the variables themselves.
  variables::Caching caching = variables::Caching::kWhereNeeded;
  /// Threads, and cores, of each replica on CPU. Its value changes the order of additions, and so
  /// the last bits.
  int threads_per_replica = 1;
  /// Replicas on each GPU, when `compute_devices` is empty or names more GPUs than there are cards.
  int logical_gpus_per_card = 1;
  /// Whether replicas on CPU may share cores.
  device::Oversubscription oversubscription = device::Oversubscription::kRefuse;
  /// The root of all randomness of the job.
  std::uint64_t seed = 0;
  /// A collective that a replica does not reach within this time fails and names it.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How the strategy calls itself.
  std::string name = "central_storage";
  /// What happens where a device scope names a device that does not exist, and the placement log.
  device::PlacementOptions placement = {};
};

/// Synchronous training whose variables and optimizer slots exist once, on a controller. Replicas
/// on other devices read a copy, fetched once a step by one transfer, and their gradients travel to
/// the controller. Choose it where optimizer slots would not fit beside the model on each card, or
/// where one device of its own shall hold the weights; where they fit, Mirrored sends less and is
/// faster on GPUs. On CPU the two do the same work. TensorFlow:
/// tf.distribute.CentralStorageStrategy.
///
/// Variables that are not trained have a component a replica, as everywhere. Of a model's batch
/// statistics replica 0's count, as with towers; metrics add up over the replicas.
///
/// Thread-safety: see Strategy.
class CentralStorageStrategy : public Strategy {
 public:
  /// Throws as `device::resolve_devices` for devices that do not fit. Logs a warning if the
  /// controller is a GPU that a replica's GPU reaches through the host only.
  explicit CentralStorageStrategy(CentralStorageOptions options = {});
};

}  // namespace brigade::distribute

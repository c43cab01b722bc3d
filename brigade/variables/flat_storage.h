#pragma once

#include <memory>
#include <span>
#include <vector>

#include "brigade/variables/variable_storage.h"

namespace brigade::variables {

/// How the replicas' components of a variable are stored.
enum class StorageSharing {
  kOneStorage,   ///< for replicas on CPU: all components are aliases of the same memory, so nothing
                 ///< is ever copied
  kOneCopyEach,  ///< one copy per replica, for replicas on different devices
  kController    ///< one master copy on the controller's device, and a copy of it on each replica
                 ///< device with separate memory
};

/// Which replicas read a copy of the variables on a controller.
enum class Caching {
  kWhereNeeded,  ///< replicas on a device other than the controller's
  kAlways        ///< all replicas: to test copies between devices on CPU, at the cost of the copies
};

/// The device of variables that do not belong to a replica.
struct Controller {
  device::Device device = {};
  Caching caching = Caching::kWhereNeeded;
};

/// The built-in kinds of storage: tensors of this process, one for all replicas or one for each.
/// With a controller, optimizers update the master copy, and `refresh` then updates each replica's
/// copy with one flat copy per step.
///
/// Thread-safety: see VariableStorage.
class FlatStorage final : public VariableStorage {
 public:
  /// `devices` has one entry per replica; `controller` is used for kController only.
  FlatStorage(const FlatLayout& layout, std::span<const c10::Device> devices,
              StorageSharing sharing, const Controller& controller = {});

  const at::Tensor& buffer(int replica) const override;
  int masters() const override;
  const at::Tensor& master(int replica) const override;
  bool is_shared() const override { return sharing_ != StorageSharing::kOneCopyEach; }
  bool is_central() const override { return sharing_ == StorageSharing::kController; }

 private:
  StorageSharing sharing_;
  std::vector<at::Tensor> buffers_;  // one for all (kOneStorage), or [replica]
  at::Tensor home_;                  // kController
};

/// Makes a FlatStorage of one kind for each dtype.
std::shared_ptr<const StorageFactory> make_flat_storage_factory(StorageSharing sharing,
                                                                const Controller& controller = {});

}  // namespace brigade::variables

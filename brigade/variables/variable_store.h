#pragma once

#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "brigade/base/ambient.h"
#include "brigade/variables/variable.h"

namespace brigade::variables {

/// Whose word decides where a variable lives.
enum class StorePlacement {
  kDevices,      ///< the store's devices, as its strategy says; device scopes count for nothing
  kDeviceScopes  ///< the open device scopes; a store of one component only
};

struct VariableStoreOptions {
  /// One a replica.
  std::vector<c10::Device> devices = {c10::Device(c10::kCPU)};
  Sharing sharing = Sharing::kOneStorage;
  /// The root of the first values of variables made by name.
  std::uint64_t seed = 0;
  StorePlacement placement = StorePlacement::kDevices;
};

/// Where variables of one job are made: it knows how many replicas there are and on which devices,
/// and gives every variable one component for each. A strategy owns one; its `scope()` makes it the
/// current one. Variables made by `get_variable` are kept here by name, with their collections and
/// regularisers, as long as the store lives; those of modules live as long as their model.
///
/// Thread-safety: all members may be called from any thread, but not inside replicas
/// (kFailedPrecondition).
class VariableStore {
 public:
  /// One entry of `devices` a replica. kOneStorage is for replicas that are all on CPU.
  VariableStore(std::vector<c10::Device> devices, Sharing sharing);

  /// Makes a variable with one component a replica, all equal to `spec.initial`. Throws
  /// kInvalidArgument (see `validate`) and kAlreadyExists if the name is in use by a living
  /// variable.
  Variable create(const VariableSpec& spec);

  /// Makes variables of the parameters and buffers of a module that was built once a replica, named
  /// `prefix + "." + libtorch's name` (no prefix: libtorch's name). All replicas get replica 0's
  /// values. Parameters are laid flat; on CPU the replicas share their memory. Buffers stay apart:
  /// floating ones are read on demand by mean, others are replica 0's. Parameters tied inside the
  /// module become one variable with aliases. Throws kInvalidArgument if the replicas' names,
  /// shapes or dtypes differ, kAlreadyExists for a name in use.
  std::vector<Variable> adopt(std::span<const std::shared_ptr<torch::nn::Module>> replicas,
                              const std::string& prefix = "");

  /// Whether no living variable has this name.
  bool is_free(const std::string& name) const;

  int num_replicas() const { return static_cast<int>(devices_.size()); }
  std::span<const c10::Device> devices() const { return devices_; }

 private:
  void claim(const std::string& name);
  void keep(const Variable& variable);

  const std::vector<c10::Device> devices_;
  const Sharing sharing_;
  mutable std::mutex mutex_;  // guards names_
  std::map<std::string, std::weak_ptr<const void>>
      names_;  // a name is free again when its variable has died
};

inline constexpr base::AmbientSlot<VariableStore> kStoreSlot{base::AmbientIndex::kStore};

/// Makes a variable in the store of the open `Strategy::scope()`; without one, a variable of one
/// component on CPU.
Variable make_variable(const VariableSpec& spec);

}  // namespace brigade::variables

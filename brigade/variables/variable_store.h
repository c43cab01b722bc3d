#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/ambient.h"
#include "brigade/variables/variable.h"
#include "brigade/variables/variable_options.h"
#include "brigade/variables/variable_storage.h"

namespace brigade::variables {

/// What determines the device of a variable.
enum class StorePlacement {
  kDevices,       ///< the store's devices, set by its strategy; device scopes are ignored
  kDeviceScopes,  ///< the open device scopes; a store of one component only
  kTasks  ///< the store's devices; what device scopes choose is kept with the variable, for a
          ///< strategy whose variables live on other tasks (`Variable::requested_device`), which
          ///< keep them contiguous: so does the store
};

/// Options of VariableStore: the devices of its components, and how they are stored.
struct VariableStoreOptions {
  /// One per replica.
  std::vector<c10::Device> devices = {c10::Device(c10::kCPU)};
  /// Where trainable variables live. Not null.
  std::shared_ptr<const StorageFactory> storage =
      make_flat_storage_factory(StorageSharing::kOneStorage);
  /// The root seed of the initial values of named variables.
  std::uint64_t seed = 0;
  /// How a variable gets its device.
  StorePlacement placement = StorePlacement::kDevices;
  /// The other processes of the job; null: none.
  std::shared_ptr<const Peers> peers = nullptr;
};

/// A variable that was created by name, as the store keeps it.
struct NamedVariable {
  Variable variable;
  std::vector<std::string> collections;
  Regularizer regularizer = {};  ///< empty: none
};

/// How a named variable was partitioned into `name/part_0`, `name/part_1`, ...
struct Partition {
  std::vector<std::int64_t> shape;   ///< of the whole variable
  std::vector<std::int64_t> counts;  ///< partitions of each axis
  friend bool operator==(const Partition&, const Partition&) = default;
};

/// Creates the variables of one job: it knows the replicas and their devices, and gives every
/// variable one component per replica. A strategy owns one; its `scope()` makes it the current one.
/// The store keeps variables created by `get_variable` by name, with their collections and
/// regularizers, as long as it exists; variables of modules exist as long as their model.
///
/// Thread-safety: all members may be called from any thread. Functions that create or move
/// variables throw kFailedPrecondition inside replicas.
class VariableStore {
 public:
  /// Throws kInvalidArgument for no devices, or for more than one if device scopes place variables.
  explicit VariableStore(VariableStoreOptions options);
  /// One entry of `devices` per replica. kOneStorage is for replicas that are all on CPU or
  /// on one card.
  VariableStore(std::vector<c10::Device> devices, StorageSharing sharing,
                const Controller& controller = {});

  /// Creates a variable with one component per replica, all equal to `spec.initial`. Throws
  /// kInvalidArgument (see `validate`) and kAlreadyExists if an existing variable has the name.
  Variable create(const VariableSpec& spec);

  /// Creates variables from the parameters and buffers of a module that was built once per replica,
  /// named `prefix + "." + libtorch's name` (no prefix: libtorch's name). All replicas get replica
  /// 0's values. Parameters are moved to contiguous storage, where kernels in channels-last order
  /// keep it; on CPU the replicas share their memory. Buffers stay separate: floating-point ones
  /// are on-read variables with the mean as aggregation, others are replica 0's. Parameters tied
  /// inside the module become one variable with aliases. Throws kInvalidArgument if the replicas'
  /// names, shapes or dtypes differ, kAlreadyExists for a name in use.
  std::vector<Variable> adopt(std::span<const std::shared_ptr<torch::nn::Module>> replicas,
                              const std::string& prefix = "");

  /// Creates a variable that `find` returns: it exists as long as the store. With a controller, an
  /// on-read variable with a mean (batch statistics) becomes replica 0's value, as with towers.
  /// Throws as `create`.
  Variable create_named(const VariableSpec& spec, std::vector<std::string> collections,
                        Regularizer regularizer = {});

  /// The variable created with this name; empty if there is none.
  std::optional<Variable> find(std::string_view name) const;

  /// Stores how `name` is partitioned. The last call wins.
  void keep_partition(const std::string& name, Partition partition);
  std::optional<Partition> partition(std::string_view name) const;

  /// The named variables whose name begins with `prefix`, in the order of creation: all of them,
  /// those of a collection, those with a regularizer.
  std::vector<Variable> variables() const;
  std::vector<Variable> variables(std::string_view collection, std::string_view prefix = "") const;
  std::vector<NamedVariable> regularized(std::string_view prefix = "") const;

  /// The variables that are not trained and still exist, those of modules too, in the order of
  /// their names: statistics, counters. Keras: non_trainable_variables.
  std::vector<Variable> non_trainable_variables() const;

  /// Moves trainable variables of one dtype and device to one contiguous storage, in the given
  /// order, so that an optimizer updates a whole range; values and handles stay valid. Skips
  /// variables that are not trainable, that already share a storage, or that would be the only one.
  /// Do not call it for variables that an optimizer holds: it would keep using their old memory.
  void make_contiguous(std::span<const Variable> variables);
  /// All named variables.
  void make_contiguous();

  /// Whether `variable` was created or adopted by this store.
  bool owns(const Variable& variable) const;

  /// Whether no existing variable has this name.
  bool is_free(const std::string& name) const;

  int num_replicas() const { return static_cast<int>(options_.devices.size()); }
  std::span<const c10::Device> devices() const { return options_.devices; }
  std::uint64_t seed() const { return options_.seed; }
  StorePlacement placement() const { return options_.placement; }

 private:
  std::vector<c10::Device> devices_of(const VariableSpec& spec) const;
  at::MemoryFormat stored_format(at::MemoryFormat wanted) const;
  void move_to_one_storage(const std::vector<Variable>& variables) const;
  void claim(const std::string& name);
  /// With peers: verifies that all processes created the same variables, and takes rank 0's values.
  void keep(std::span<const Variable> variables);

  const VariableStoreOptions options_;
  mutable std::shared_mutex mutex_;              // guards all below
  std::map<std::string, Variable::Weak> names_;  // a name is free again when its variable is gone
  std::deque<NamedVariable> named_;              // in the order of creation
  std::map<std::string, std::size_t, std::less<>> named_index_;
  std::map<std::string, Partition, std::less<>> partitions_;
};

inline constexpr base::AmbientSlot<VariableStore> kStoreSlot{base::AmbientIndex::kStore};

/// Creates a variable in the store of the open `Strategy::scope()`; without one, a variable with
/// one component on CPU.
Variable make_variable(const VariableSpec& spec);

}  // namespace brigade::variables

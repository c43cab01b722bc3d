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

namespace brigade::variables {

/// Whose word decides where a variable lives.
enum class StorePlacement {
  kDevices,      ///< the store's devices, as its strategy says; device scopes count for nothing
  kDeviceScopes  ///< the open device scopes; a store of one component only
};

struct VariableStoreOptions {
  /// One a replica.
  std::vector<c10::Device> devices = {c10::Device(c10::kCPU)};
  StorageSharing sharing = StorageSharing::kOneStorage;
  /// Where trainable variables live under StorageSharing::kController.
  Controller controller{};
  /// The root of the first values of variables made by name.
  std::uint64_t seed = 0;
  StorePlacement placement = StorePlacement::kDevices;
  /// The other processes of the job; null: there are none.
  std::shared_ptr<const Peers> peers = nullptr;
};

/// What a store remembers of a variable that was made by name.
struct NamedVariable {
  Variable variable;
  std::vector<std::string> collections;
  Regularizer regularizer = {};  ///< empty: none
};

/// How a variable that was made by name was cut into `name/part_0`, `name/part_1`, ...
struct Partition {
  std::vector<std::int64_t> shape;   ///< of the whole
  std::vector<std::int64_t> counts;  ///< parts of each axis
  friend bool operator==(const Partition&, const Partition&) = default;
};

/// Where variables of one job are made: it knows how many replicas there are and on which devices,
/// and gives every variable one component for each. A strategy owns one; its `scope()` makes it the
/// current one. Variables made by `get_variable` are kept here by name, with their collections and
/// regularizers, as long as the store lives; those of modules live as long as their model.
///
/// Thread-safety: all members may be called from any thread. Those that make or move variables
/// throw kFailedPrecondition inside replicas.
class VariableStore {
 public:
  /// Throws kInvalidArgument for no devices, or for more than one if device scopes place.
  explicit VariableStore(VariableStoreOptions options);
  /// One entry of `devices` a replica. kOneStorage is for replicas that are all on CPU.
  VariableStore(std::vector<c10::Device> devices, StorageSharing sharing,
                const Controller& controller = {});

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

  /// Makes a variable that `find` finds: it lives as long as the store. On a controller a mean that
  /// is taken on read (batch statistics) becomes replica 0's value, as with towers. Throws as
  /// `create`.
  Variable create_named(const VariableSpec& spec, std::vector<std::string> collections,
                        Regularizer regularizer = {});

  /// The variable that was made by this name; empty if there is none.
  std::optional<Variable> find(std::string_view name) const;

  /// Remembers how the parts of `name` make a whole. The last word counts.
  void keep_partition(const std::string& name, Partition partition);
  std::optional<Partition> partition(std::string_view name) const;

  /// The variables made by name whose name begins with `prefix`, in the order of their making: all
  /// of them, those of a collection, those with a regularizer.
  std::vector<Variable> variables() const;
  std::vector<Variable> variables(std::string_view collection, std::string_view prefix = "") const;
  std::vector<NamedVariable> regularized(std::string_view prefix = "") const;

  /// Lays trainable variables of one dtype and device behind one another, in the order given, so
  /// that an optimizer updates a whole range; values and handles stay. Skips what is not trainable,
  /// what lies behind others already, and what would lie alone. Do not call it for variables that
  /// an optimizer holds: it would go on with their old memory.
  void make_contiguous(std::span<const Variable> variables);
  /// All variables made by name.
  void make_contiguous();

  /// Whether `variable` was made here, or is a model's that was adopted here.
  bool owns(const Variable& variable) const;

  /// Whether no living variable has this name.
  bool is_free(const std::string& name) const;

  int num_replicas() const { return static_cast<int>(options_.devices.size()); }
  std::span<const c10::Device> devices() const { return options_.devices; }
  std::uint64_t seed() const { return options_.seed; }
  StorePlacement placement() const { return options_.placement; }

 private:
  std::vector<c10::Device> devices_of(const VariableSpec& spec) const;
  std::shared_ptr<FlatStorage> make_storage(at::ScalarType dtype,
                                            std::span<const std::int64_t> sizes,
                                            std::span<const c10::Device> devices) const;
  void move_to_one_storage(const std::vector<Variable>& variables) const;
  void claim(const std::string& name);
  /// With peers: proves that all made the same, and takes over rank 0's values.
  void keep(std::span<const Variable> variables);

  const VariableStoreOptions options_;
  mutable std::shared_mutex mutex_;  // guards all below
  std::map<std::string, std::weak_ptr<const void>>
      names_;                        // a name is free again when its variable has died
  std::deque<NamedVariable> named_;  // in the order of their making
  std::map<std::string, std::size_t, std::less<>> named_index_;
  std::map<std::string, Partition, std::less<>> partitions_;
};

inline constexpr base::AmbientSlot<VariableStore> kStoreSlot{base::AmbientIndex::kStore};

/// Makes a variable in the store of the open `Strategy::scope()`; without one, a variable of one
/// component on CPU.
Variable make_variable(const VariableSpec& spec);

}  // namespace brigade::variables

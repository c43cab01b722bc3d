#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/variables/peers.h"
#include "brigade/variables/variable_storage.h"

namespace brigade::variables {

/// When the components of a variable are synchronized (TensorFlow: tf.VariableSynchronization).
enum class Synchronization {
  kAuto,     ///< as kOnWrite
  kNone,     ///< refused: variables on several replicas need synchronization
  kOnWrite,  ///< components are always equal; a write in a replica is a collective
  kOnRead,   ///< every replica writes its own; reading outside of replicas aggregates (metrics,
             ///< batch statistics)
};

/// How components, or the values written by replicas, are combined (TensorFlow:
/// tf.VariableAggregation).
enum class Aggregation {
  kNone,  ///< replicas must write the same value
  kSum,
  kMean,              ///< floating variables only
  kOnlyFirstReplica,  ///< replica 0's value is used
};

std::string_view to_string(Synchronization synchronization);
std::string_view to_string(Aggregation aggregation);

/// Which part of a partitioned variable a partition is. Checkpoints have the whole. TensorFlow:
/// SaveSliceInfo.
struct VariableSlice {
  std::string whole;                ///< the name of the partitioned variable
  std::vector<std::int64_t> shape;  ///< its shape
  std::int64_t axis = 0;            ///< along which it is split
  std::int64_t offset = 0;          ///< of this partition, along the axis
  friend bool operator==(const VariableSlice&, const VariableSlice&) = default;
};

/// The description of a variable to be created.
struct VariableSpec {
  /// Unique within its store; letters, digits and "._/-". Its name in checkpoints.
  std::string name;
  /// The initial value; it sets the variable's shape and dtype. Copied.
  at::Tensor initial;
  /// Whether optimizers change it.
  bool trainable = true;
  /// How its components agree, and how they are combined when it is read outside of replicas.
  Synchronization synchronization = Synchronization::kAuto;
  Aggregation aggregation = Aggregation::kNone;
  /// Its device, in a store whose placement is kDeviceScopes; other stores refuse it.
  std::optional<c10::Device> device = std::nullopt;
  /// Unset: it is no partition of another.
  std::optional<VariableSlice> slice = std::nullopt;
  /// Set by a store whose placement is kTasks; see Variable::requested_device.
  std::string requested_device = {};
  /// The order of its elements in memory: kContiguous, or ChannelsLast for kernels [out, in,
  /// height, width] of convolutions that compute in that order, which then convert nothing. Values,
  /// files and hashes are the same in both.
  at::MemoryFormat memory_format = at::MemoryFormat::Contiguous;
};

/// Throws kInvalidArgument for an invalid specification: no name, no initial value, synchronization
/// kNone, the mean of an integral variable, a trainable variable that is synchronized on read, a
/// memory format that the shape cannot have.
void validate(const VariableSpec& spec);

/// A named value with one component (a tensor) per replica, on that replica's device. Inside
/// `Strategy::run` it reads and writes the replica's tensor; outside it is one value. Updates,
/// checkpoints and parameter servers work on variables, never on the module or function that
/// created them.
///
/// A handle: copies refer to the same variable, which exists as long as one of them.
///
/// Thread-safety: replicas may use their own components at the same time. `assign` and `assign_add`
/// of a kOnWrite variable inside a replica are collectives: every replica makes the call. Outside
/// of `run`: one thread at a time.
class Variable {
 public:
  const std::string& name() const;
  /// Other names of the same memory: tied parameters of a module.
  const std::vector<std::string>& aliases() const;
  at::IntArrayRef shape() const;
  at::ScalarType dtype() const;
  std::int64_t numel() const;
  bool trainable() const;
  Synchronization synchronization() const;
  Aggregation aggregation() const;
  /// Unset: it is no partition of another.
  const std::optional<VariableSlice>& slice() const;
  /// What the device scopes that were open when it was made chose for it, in a strategy with
  /// parameter servers: "/job:ps/task:1". Empty: nothing.
  const std::string& requested_device() const;
  /// The order of its elements in memory, and so the strides of its components. ChannelsLast only
  /// where that differs from kContiguous, and not with parameter servers.
  at::MemoryFormat memory_format() const;
  int num_components() const;
  /// The number of components over all processes.
  int num_components_in_all() const;

  /// Replica `replica`'s tensor. Do not modify a trainable one: the next step throws then (see
  /// `check_untouched`).
  const at::Tensor& component(int replica) const;
  /// The calling replica's tensor; outside of replicas, the primary (replica 0's).
  const at::Tensor& local() const;

  /// The value: in a replica its component; outside the primary for kOnWrite, and the aggregate for
  /// kOnRead (throws kFailedPrecondition if its aggregation is kNone). A copy outside of replicas,
  /// an alias inside. With several processes the aggregate is over all of them, and reading it is a
  /// collective.
  at::Tensor read() const;

  /// Sets the value. In a replica: kOnRead sets the replica's component; kOnWrite aggregates the
  /// replicas' values (kNone throws kInvalidArgument if they differ, where TensorFlow silently
  /// diverges). Outside: every component gets `value`, or `value` / replicas for kOnRead with kSum,
  /// so that reading returns `value`. Throws kInvalidArgument if the shape differs.
  void assign(const at::Tensor& value) const;
  /// Adds, by the same rules. Outside of replicas kOnRead with kSum is refused, as in TensorFlow:
  /// assign instead.
  void assign_add(const at::Tensor& value) const;

  /// The storage of a trainable variable, and the offset of its first element in it. Null for
  /// others.
  const std::shared_ptr<VariableStorage>& storage() const;
  std::int64_t offset() const;
  /// Its part of `flat`, a tensor with the layout of its storage (slots), in its shape: an alias.
  at::Tensor part_of(const at::Tensor& flat) const;

  /// For code that updates the storage directly (optimizers): marks replica `replica`'s component
  /// as changed, so that a backward pass through an older forward throws instead of giving wrong
  /// gradients.
  void mark_updated(int replica) const;
  /// Throws kFailedPrecondition, naming the variable and what to do, if code outside of Brigade
  /// changed the component in place, moved it to other memory, or accumulated a gradient in its
  /// `.grad` (`loss.backward()` by hand, which a torch::optim optimizer would then apply).
  void check_untouched(int replica) const;

  /// For stores: moves a trainable variable, with its values, to `storage` from element `offset`
  /// on. All handles and components stay valid. Outside of replicas, and not while an optimizer
  /// holds the variable.
  void move_to(std::shared_ptr<VariableStorage> storage, std::int64_t offset) const;

  /// For stores: sets the other processes that have this variable.
  void set_peers(std::shared_ptr<const Peers> peers) const;

  /// Whether both are handles of the same variable.
  bool is_same(const Variable& other) const { return state_ == other.state_; }
  /// A handle that does not keep the variable in existence. For stores.
  class Weak;

 private:
  struct State;
  friend class VariableBuilder;
  explicit Variable(std::shared_ptr<State> state) : state_(std::move(state)) {}
  at::Tensor sum_of_components() const;
  void write_replica(int replica, const at::Tensor& value) const;
  void write_all(const at::Tensor& value) const;
  bool is_shared() const;
  bool is_cached(int replica) const;
  at::Tensor master(int replica) const;
  void barrier(const at::Tensor& own) const;
  at::Tensor aggregate_of_replicas(const at::Tensor& value) const;
  void assign_in_replica(const at::Tensor& value) const;
  void check_shape(const at::Tensor& value, std::string_view call) const;
  std::shared_ptr<State> state_;
};

class Variable::Weak {
 public:
  explicit Weak(const Variable& variable) : state_(variable.state_) {}
  bool expired() const { return state_.expired(); }
  /// Nothing if the variable does not exist any more.
  std::optional<Variable> lock() const {
    auto state = state_.lock();
    if (!state) return std::nullopt;
    return Variable(std::move(state));
  }

 private:
  std::weak_ptr<State> state_;
};

/// Creates variables from components; for stores and adoption, not for users.
class VariableBuilder {
 public:
  VariableSpec spec;  ///< `initial` is not used
  std::vector<std::string> aliases;
  std::vector<at::Tensor> components;
  std::shared_ptr<VariableStorage> storage;
  std::int64_t offset = 0;

  Variable build() &&;
};

}  // namespace brigade::variables

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/comm/local/local_group.h"
#include "brigade/comm/replica.h"
#include "brigade/device/device.h"
#include "brigade/distribute/per_replica.h"

namespace brigade::distribute {

/// What is equal for all replicas of one `run`.
struct StepContext {
  std::uint64_t step = 0;  ///< the number of earlier runs of this strategy
  std::optional<ExampleCounts>
      examples;  ///< of the distributed batch that was passed; unset without one
};

class AuditedPass;
class StepCapture;
class Strategy;

/// The replica that runs a step function: its index and device, and its collectives with the other
/// replicas. `Strategy::run` passes it to the function; it is valid until the function returns.
/// TensorFlow: tf.distribute.ReplicaContext.
///
/// Collective members (`all_reduce`, `all_gather`, `merge_call`, `barrier`) must be called by every
/// replica the same number of times in the same order. If a replica returns early, the others fail
/// with an error that names it.
///
/// Thread-safety: this replica's thread only.
class ReplicaContext : public comm::Replica {
 public:
  ReplicaContext(const comm::Replica& replica, Strategy& strategy, const device::Device& device,
                 const StepContext& step, comm::LocalGroup& group, AuditedPass* audit = nullptr);

  /// 0 .. num_replicas_in_sync()-1.
  int replica_id() const { return id; }
  int num_replicas_in_sync() const { return count; }
  const device::Device& device() const { return device_; }
  Strategy& strategy() const { return strategy_; }
  /// The number of runs of the strategy before this one.
  std::uint64_t step() const { return step_.step; }

  /// The number of examples of this replica, and of all replicas, in this step; unset if `run` got
  /// no distributed batch.
  std::optional<std::int64_t> local_examples() const;
  std::optional<std::int64_t> global_examples() const;

  /// The sum, mean, maximum or minimum of every replica's `value`, as a new tensor. Sum and mean
  /// are differentiable: the gradient is reduced in the same way. Throws kInvalidArgument if shapes
  /// or dtypes differ.
  at::Tensor all_reduce(comm::ReduceOp op, const at::Tensor& value) const;

  /// Concatenates every replica's `value` along `axis`, where sizes may differ. Differentiable:
  /// each replica gets the gradient of its part, summed over the replicas. Throws kInvalidArgument
  /// for a scalar.
  at::Tensor all_gather(const at::Tensor& value, std::int64_t axis) const;

  /// Waits for the other replicas, calls `function` once in each worker, in the cross-replica
  /// context and on its first replica's thread, and returns in all replicas when it is done. An
  /// exception of `function` is thrown in every replica.
  void merge_call(const std::function<void(Strategy&)>& function) const;

  /// Returns when every replica has called it.
  void barrier() const { communicator->barrier(); }

  /// Measures the phases of this replica's step; null if steps are not measured (see
  /// Strategy::measure_steps).
  comm::StepClock* clock() const { return group_.clock(local_id); }

  /// This replica makes no more collectives in this step: those of the others throw, now or later,
  /// with this reason.
  void release_others(const std::string& reason) const { group_.abort(local_id, reason); }

  /// For optimizers: what audits this replica's gradients; null if they are not audited.
  AuditedPass* audit() const { return audit_; }

  /// For what must do the host's part of a step that is captured (`StepCapture::add_host_work`):
  /// null if the step is computed. Set by `CompiledStep`.
  StepCapture* capture() const { return capture_; }
  void set_capture(StepCapture* capture) { capture_ = capture; }

 private:
  Strategy& strategy_;
  const device::Device& device_;
  const StepContext& step_;
  comm::LocalGroup& group_;
  AuditedPass* const audit_;
  StepCapture* capture_ = nullptr;
};

/// Set by `Strategy::run`, together with `comm::kReplicaSlot`. Read it by
/// `current_replica_context`.
inline constexpr base::AmbientSlot<const ReplicaContext> kContextSlot{base::AmbientIndex::kContext};

/// The replica context of the calling thread, or null outside of `Strategy::run` (TensorFlow:
/// get_replica_context).
const ReplicaContext* current_replica_context();

/// The clock of the replica that the calling thread runs; null outside of replicas and if steps are
/// not measured.
comm::StepClock* current_step_clock();

/// Whether the calling thread is outside of replicas (TensorFlow: in_cross_replica_context).
bool in_cross_replica_context();

class ReplicaContext;
class Strategy;

/// The strategy that a model or an optimizer belongs to. Replicas of another strategy refuse the
/// model or optimizer: they may have other devices, and their runs would not check it.
///
/// Thread-safety: immutable.
class StrategyRef {
 public:
  explicit StrategyRef(const Strategy& strategy);

  /// "mirrored (cpu:0, cpu:1)".
  const std::string& description() const { return description_; }
  /// Throws kFailedPrecondition, naming both strategies, unless `context` belongs to a replica of
  /// this strategy. `what` is the start of the message: "A model".
  void check(const ReplicaContext& context, std::string_view what) const;

 private:
  const Strategy* strategy_;  // only compared: it may have been destroyed
  std::string description_;
};

}  // namespace brigade::distribute

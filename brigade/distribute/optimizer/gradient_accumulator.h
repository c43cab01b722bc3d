#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "brigade/distribute/optimizer/gradient_parts.h"
#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// Sums the gradients of several micro-batches in one replica, until they are applied together. It
/// keeps one buffer of the size of all parameters that are not frozen, on the replica's device.
/// Gradients of half and bfloat16 are added in float32. Gradients of rows stay so. Gradients that
/// are not computed (`variables::DeferredGradient`) are kept as they are, as long as they take less
/// memory than their sum, and then computed and added in one pass, in the order in which they came.
///
/// Thread-safety: its replica's thread in a run, the caller's outside.
class GradientAccumulator {
 public:
  /// For replica `replica`'s gradients of `state`'s variables. The first `add` allocates memory.
  GradientAccumulator(const optim::OptimizerState& state, int replica);

  /// Adds one micro-batch: one gradient per variable, in memory order as for
  /// `GradientSynchronizer::apply`, undefined if it has none. Those that are deferred are
  /// contiguous when they are computed. `global` is the number of examples of all replicas in it;
  /// if that is unset, `local` is this replica's.
  void add(const ReplicaGradients& gradients, std::optional<std::int64_t> global,
           std::int64_t local);

  /// Micro-batches added since the last `clear`.
  int micro_batches() const { return micro_batches_; }
  /// Examples of all replicas, in micro-batches whose global number was given.
  std::int64_t global_examples() const { return global_; }
  /// This replica's examples in the other micro-batches, to be summed over the replicas; unset on
  /// every replica if there are no such micro-batches.
  std::optional<std::int64_t> local_examples() const { return local_; }

  /// Divides the sums by `divisor` in place, and returns them in the dtype of the additions;
  /// undefined if no micro-batch had a gradient. Valid until the next `add` after `clear`.
  std::vector<at::Tensor> divided(double divisor);
  /// Starts a new group.
  void clear();

 private:
  void reserve();

  const optim::OptimizerState& state_;
  const int replica_;
  void add_value(std::size_t variable, const at::Tensor& gradient);
  void add_rows(std::size_t variable, const at::Tensor& gradient);
  void defer(std::size_t variable, const variables::DeferredGradientPtr& gradient);
  void add_deferred(std::size_t variable);

  std::vector<at::Tensor> memory_;  // flat, one per dtype
  std::vector<at::Tensor> sums_;    // [variable], parts of memory_; undefined for frozen ones
  std::vector<at::Tensor> rows_;    // [variable], sparse; defined: added to what sums_ has
  std::vector<bool> present_;       // [variable]: sums_ has a sum
  // [variable]: to be added to what sums_ has.
  std::vector<std::vector<variables::DeferredGradientPtr>> deferred_;
  int micro_batches_ = 0;
  std::int64_t global_ = 0;
  std::optional<std::int64_t> local_;
};

}  // namespace brigade::distribute

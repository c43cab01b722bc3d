#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// The gradients of several micro-batches in one replica, added up until they are applied together:
/// one buffer of the size of the parameters that are not frozen, on the replica's device, which is
/// kept from group to group. Gradients of half and bfloat16 are added up in float32.
///
/// Thread-safety: its replica's thread in a run, the caller's outside.
class GradientAccumulator {
 public:
  /// For replica `replica`'s gradients of `state`'s variables. Memory comes with the first `add`.
  GradientAccumulator(const optim::OptimizerState& state, int replica);

  /// Adds one micro-batch: one gradient a variable, undefined where there is none. `global` are the
  /// examples of all replicas behind it; where they are not known, `local` those of this one.
  void add(std::span<const at::Tensor> gradients, std::optional<std::int64_t> global,
           std::int64_t local);

  /// Micro-batches added since the last `clear`.
  int micro_batches() const { return micro_batches_; }
  /// Examples of all replicas in micro-batches for which that was known.
  std::int64_t global_examples() const { return global_; }
  /// This replica's examples in the others: to be summed over the replicas; unset if there were
  /// none, in every replica alike.
  std::optional<std::int64_t> local_examples() const { return local_; }

  /// The sums divided by `divisor`, in place and in the dtype in which they were added up;
  /// undefined where no micro-batch had a gradient. Valid until the next `add` after `clear`.
  std::vector<at::Tensor> divided(double divisor);
  /// Starts a new group.
  void clear();

 private:
  void reserve();

  const optim::OptimizerState& state_;
  const int replica_;
  std::vector<at::Tensor> memory_;  // flat, one a dtype
  std::vector<at::Tensor> sums_;    // [variable], parts of memory_; undefined for frozen ones
  std::vector<bool> present_;       // [variable]
  int micro_batches_ = 0;
  std::int64_t global_ = 0;
  std::optional<std::int64_t> local_;
};

}  // namespace brigade::distribute

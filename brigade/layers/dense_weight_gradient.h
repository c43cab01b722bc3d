#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "brigade/comm/reduction_tree.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::layers {

/// The gradient of a dense layer's weights [out, in] as the product that it is: the gradients of
/// the outputs [examples, out], transposed, times the inputs [examples, in]. For few examples the
/// two are much smaller than their product. Sums of such products are computed without them
/// (`sum_of_weight_gradients`).
class DenseWeightGradient final : public variables::DeferredGradient {
 public:
  /// Copies `output_gradients` and `inputs`: float32, on the CPU, contiguous inputs; for processors
  /// that `SmallBatchProducts` supports, with a number of inputs that it allows.
  DenseWeightGradient(at::Tensor weight, const at::Tensor& output_gradients,
                      const at::Tensor& inputs);

  static std::int64_t bytes_for(std::int64_t examples, const at::Tensor& weight);
  std::int64_t bytes() const override { return bytes_for(examples_, variable()); }
  at::Tensor compute() const override;
  /// Of products of this class and values.
  bool try_sum(std::span<const variables::GradientPart> parts, const comm::ReductionTree& tree,
               const at::Tensor& sum) const override;

 private:
  std::int64_t in() const { return variable().size(1); }
  std::int64_t out() const { return variable().size(0); }

  const std::int64_t examples_;
  const at::Tensor transposed_gradients_;  // [out, examples]
  const at::Tensor packed_inputs_;
};

}  // namespace brigade::layers

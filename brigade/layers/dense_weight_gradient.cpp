#include "brigade/layers/dense_weight_gradient.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <utility>
#include <vector>

#include "brigade/layers/weight_gradient_sum.h"

namespace brigade::layers {
namespace {

at::Tensor transposed_copy(const at::Tensor& output_gradients) {
  const at::NoGradGuard no_grad;
  return output_gradients.t().clone(at::MemoryFormat::Contiguous);
}

at::Tensor packed_copy(const at::Tensor& inputs) {
  const at::NoGradGuard no_grad;
  at::Tensor packed = at::empty({inputs.numel()}, inputs.options().requires_grad(false));
  pack_inputs(inputs.const_data_ptr<float>(), inputs.size(0), inputs.size(1),
              packed.mutable_data_ptr<float>());
  return packed;
}

}  // namespace

DenseWeightGradient::DenseWeightGradient(at::Tensor weight, const at::Tensor& output_gradients,
                                         const at::Tensor& inputs)
    : DeferredGradient(std::move(weight)),
      examples_(inputs.size(0)),
      transposed_gradients_(transposed_copy(output_gradients)),
      packed_inputs_(packed_copy(inputs)) {}

std::int64_t DenseWeightGradient::bytes_for(std::int64_t examples, const at::Tensor& weight) {
  return examples * (weight.size(0) + weight.size(1)) * static_cast<std::int64_t>(sizeof(float));
}

at::Tensor DenseWeightGradient::compute() const {
  const at::NoGradGuard no_grad;
  at::Tensor product = at::empty({out(), in()}, transposed_gradients_.options());
  const WeightGradientSummand only{.transposed_dy = transposed_gradients_.const_data_ptr<float>(),
                                   .packed_x = packed_inputs_.const_data_ptr<float>(),
                                   .examples = examples_};
  sum_of_weight_gradients({&only, 1}, in(), out(), product.mutable_data_ptr<float>());
  return product;
}

bool DenseWeightGradient::try_sum(std::span<const variables::GradientPart> parts,
                                  const comm::ReductionTree& tree, const at::Tensor& sum) const {
  std::vector<bool> is_present;
  for (const variables::GradientPart& part : parts) is_present.push_back(part.is_defined());
  const std::vector<int> additions = tree.additions_of(is_present);
  std::vector<WeightGradientSummand> summands;
  int kept = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!is_present[i]) continue;
    if (kept > kMostKeptSums) return false;
    kept += 1 - additions[i];
    if (parts[i].value.defined()) {
      summands.push_back(
          {.value = parts[i].value.const_data_ptr<float>(), .additions = additions[i]});
      continue;
    }
    const auto* product = dynamic_cast<const DenseWeightGradient*>(parts[i].deferred.get());
    if (product == nullptr) return false;
    summands.push_back({.transposed_dy = product->transposed_gradients_.const_data_ptr<float>(),
                        .packed_x = product->packed_inputs_.const_data_ptr<float>(),
                        .examples = product->examples_,
                        .additions = additions[i]});
  }
  sum_of_weight_gradients(summands, in(), out(), sum.mutable_data_ptr<float>());
  return true;
}

}  // namespace brigade::layers

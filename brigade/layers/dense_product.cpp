#include "brigade/layers/dense_product.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>

#include "brigade/device/autocast_scope.h"
#include "brigade/layers/deferrable_linear.h"
#include "brigade/layers/dense_weight_gradient.h"
#include "brigade/layers/small_batch_products.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Smaller weights stay in the caches, where copying them costs little.
constexpr std::int64_t kLargeWeights = 1 << 20;

// The most examples for which our kernel of the weights' gradient is as fast as a library's. Sums
// of its products need not have the products in memory.
constexpr std::int64_t kMostExamples = 64;

SmallBatchProducts products_of(const at::Tensor& inputs, const at::Tensor& weight) {
  return {inputs.size(0), weight.size(1), weight.size(0)};
}

bool has_few_examples(const at::Tensor& inputs) {
  return inputs.size(0) <= SmallBatchProducts::kMostExamples;
}

class SmallBatchProduct : public torch::autograd::Function<SmallBatchProduct> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& inputs,
                            const at::Tensor& weight) {
    context->save_for_backward({inputs, weight});
    if (!has_few_examples(inputs)) return at::linear(inputs, weight);
    at::Tensor outputs = at::empty({inputs.size(0), weight.size(0)}, inputs.options());
    products_of(inputs, weight)
        .outputs(inputs.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                 outputs.mutable_data_ptr<float>());
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &inputs = saved[0], &weight = saved[1], &gradient = gradients[0];
    if (at::GradMode::is_enabled())  // for gradients of gradients
      return {gradient.mm(weight), gradient.t().mm(inputs)};
    return {context->needs_input_grad(0) ? of_inputs(gradient, weight) : at::Tensor(),
            context->needs_input_grad(1) ? of_weight(gradient, inputs, weight) : at::Tensor()};
  }

 private:
  static at::Tensor of_inputs(const at::Tensor& gradient, const at::Tensor& weight) {
    if (!has_few_examples(gradient)) return gradient.mm(weight);
    const at::Tensor dy = gradient.contiguous();
    at::Tensor result = at::empty({dy.size(0), weight.size(1)}, dy.options());
    products_of(dy, weight)
        .input_gradient(dy.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                        result.mutable_data_ptr<float>());
    return result;
  }

  /// Undefined if it is taken without being computed.
  static at::Tensor of_weight(const at::Tensor& gradient, const at::Tensor& inputs,
                              const at::Tensor& weight) {
    const auto product = std::make_shared<const DenseWeightGradient>(weight, gradient, inputs);
    variables::GradientDeferral* const deferral =
        variables::gradient_deferral(weight, product->bytes());
    if (deferral == nullptr) return product->compute();
    deferral->take(product);
    return {};
  }
};

bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
         tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

bool fits_small_batch(const at::Tensor& inputs, const at::Tensor& weight, const at::Tensor& bias) {
  return inputs.defined() && weight.defined() && inputs.dim() == 2 && weight.dim() == 2 &&
         inputs.size(0) >= 2 && inputs.size(0) <= kMostExamples &&
         inputs.size(1) == weight.size(1) &&
         inputs.size(1) % SmallBatchProducts::kInputMultiple == 0 &&
         weight.numel() >= kLargeWeights && is_plain(inputs) && is_plain(weight) &&
         (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0) && is_plain(bias)));
}

}  // namespace

at::Tensor dense_product(const at::Tensor& inputs, const at::Tensor& weight,
                         const at::Tensor& bias) {
  if (fits_small_batch(inputs, weight, bias) && SmallBatchProducts::are_supported() &&
      !device::AutocastState::current().dtype(at::kCPU).has_value()) {
    at::Tensor outputs = SmallBatchProduct::apply(inputs, weight);
    return bias.defined() ? outputs.add_(bias) : outputs;
  }
  return deferrable_linear(inputs, weight, bias);
}

}  // namespace brigade::layers

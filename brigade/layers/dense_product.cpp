#include "brigade/layers/dense_product.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include "brigade/device/autocast_scope.h"
#include "brigade/layers/small_batch_products.h"

namespace brigade::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Smaller weights stay in the caches, where copying them costs little.
constexpr std::int64_t kLargeWeights = 1 << 20;

SmallBatchProducts products_of(const at::Tensor& inputs, const at::Tensor& weight) {
  return {inputs.size(0), weight.size(1), weight.size(0)};
}

class SmallBatchProduct : public torch::autograd::Function<SmallBatchProduct> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& inputs,
                            const at::Tensor& weight) {
    context->save_for_backward({inputs, weight});
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
    return {context->needs_input_grad(0) ? of_inputs(gradient.contiguous(), weight) : at::Tensor(),
            context->needs_input_grad(1) ? of_weight(gradient, inputs) : at::Tensor()};
  }

 private:
  static at::Tensor of_inputs(const at::Tensor& gradient, const at::Tensor& weight) {
    at::Tensor result = at::empty({gradient.size(0), weight.size(1)}, gradient.options());
    products_of(gradient, weight)
        .input_gradient(gradient.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                        result.mutable_data_ptr<float>());
    return result;
  }

  static at::Tensor of_weight(const at::Tensor& gradient, const at::Tensor& inputs) {
    at::Tensor result = at::empty({gradient.size(1), inputs.size(1)}, gradient.options());
    const at::Tensor transposed = gradient.t().contiguous();
    products_of(inputs, result)
        .weight_gradient(transposed.const_data_ptr<float>(), inputs.const_data_ptr<float>(),
                         result.mutable_data_ptr<float>());
    return result;
  }
};

bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
         tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

bool fits_small_batch(const at::Tensor& inputs, const at::Tensor& weight, const at::Tensor& bias) {
  return inputs.defined() && weight.defined() && inputs.dim() == 2 && weight.dim() == 2 &&
         inputs.size(0) >= 2 && inputs.size(0) <= SmallBatchProducts::kMostExamples &&
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
  return at::linear(inputs, weight, bias);
}

}  // namespace brigade::layers

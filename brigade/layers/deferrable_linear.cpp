#include "brigade/layers/deferrable_linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>

#include "brigade/comm/stage_passes.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class DeferredProduct final : public variables::DeferredGradient {
 public:
  /// The program may reuse its batch, so that is copied.
  DeferredProduct(const at::Tensor& weight, at::Tensor gradient, const at::Tensor& inputs)
      : DeferredGradient(weight), gradient_(std::move(gradient)), inputs_(inputs.clone()) {}

  static std::int64_t bytes_of(const at::Tensor& gradient, const at::Tensor& inputs) {
    return static_cast<std::int64_t>(gradient.nbytes() + inputs.nbytes());
  }
  std::int64_t bytes() const override { return bytes_of(gradient_, inputs_); }
  at::Tensor compute() const override {
    const at::NoGradGuard no_grad;
    return gradient_.t().mm(inputs_);
  }

 private:
  const at::Tensor gradient_, inputs_;
};

class DeferrableLinear : public torch::autograd::Function<DeferrableLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& inputs,
                            const at::Tensor& weight, const at::Tensor& bias) {
    context->save_for_backward({inputs, weight});
    return at::linear(inputs, weight, bias);
  }

  /// The products that autograd makes.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &inputs = saved[0], &weight = saved[1], &gradient = gradients[0];
    variable_list computed(3);
    if (context->needs_input_grad(0)) computed[0] = gradient.mm(weight);
    if (context->needs_input_grad(2)) computed[2] = gradient.sum(0);
    if (context->needs_input_grad(1) && !hand_over(weight, gradient, inputs))
      computed[1] = gradient.t().mm(inputs);
    return computed;
  }

 private:
  static bool hand_over(const at::Tensor& weight, const at::Tensor& gradient,
                        const at::Tensor& inputs) {
    if (at::GradMode::is_enabled()) return false;
    variables::GradientDeferral* const deferral =
        variables::gradient_deferral(weight, DeferredProduct::bytes_of(gradient, inputs));
    if (deferral == nullptr) return false;
    deferral->take(std::make_shared<const DeferredProduct>(weight, gradient, inputs));
    return true;
  }
};

/// With other strides autograd makes other products.
bool is_plain_matrix(const at::Tensor& matrix) {
  return matrix.defined() && matrix.device().is_cpu() && matrix.layout() == at::kStrided &&
         matrix.dim() == 2 && matrix.size(0) > 1 && matrix.size(1) > 1 && matrix.is_contiguous();
}

}  // namespace

at::Tensor deferrable_linear(const at::Tensor& inputs, const at::Tensor& weight,
                             const at::Tensor& bias) {
  const bool may_defer = comm::is_in_pipeline() && at::GradMode::is_enabled() &&
                         is_plain_matrix(inputs) && is_plain_matrix(weight) && bias.defined() &&
                         bias.dim() == 1 && inputs.size(1) == weight.size(1) &&
                         !device::AutocastState::current().dtype(at::kCPU).has_value();
  return may_defer ? DeferrableLinear::apply(inputs, weight, bias)
                   : at::linear(inputs, weight, bias);
}

}  // namespace brigade::layers

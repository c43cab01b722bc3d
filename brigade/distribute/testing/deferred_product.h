#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "brigade/variables/deferred_gradient.h"

namespace brigade::distribute {

/// For tests: a gradient that is known, and counts how often it is computed.
class KnownGradient final : public variables::DeferredGradient {
 public:
  KnownGradient(at::Tensor variable, at::Tensor value, std::atomic<int>* computed = nullptr)
      : DeferredGradient(std::move(variable)), value_(std::move(value)), computed_(computed) {}
  std::int64_t bytes() const override { return static_cast<std::int64_t>(value_.nbytes()) / 8; }
  at::Tensor compute() const override {
    if (computed_ != nullptr) ++*computed_;
    return value_.clone();
  }

 private:
  const at::Tensor value_;
  std::atomic<int>* const computed_;
};

/// For tests: x [examples, in] times the transpose of a weight [out, in], whose gradient is handed
/// over if somebody takes it. Counts these in `handed_over`, which outlives the graph.
struct DeferredProduct : torch::autograd::Function<DeferredProduct> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, std::int64_t handed_over) {
    context->save_for_backward({x, weight});
    context->saved_data["handed_over"] = handed_over;
    return x.mm(weight.t());
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& output_gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor gradient = output_gradients[0].t().mm(x);
    const at::Tensor of_x = output_gradients[0].mm(weight);
    if (at::GradMode::is_enabled()) return {of_x, gradient, at::Tensor()};
    auto known = std::make_shared<const KnownGradient>(weight, gradient);
    if (auto* deferral = variables::gradient_deferral(weight, known->bytes())) {
      ++*reinterpret_cast<std::atomic<int>*>(context->saved_data["handed_over"].toInt());
      deferral->take(std::move(known));
      return {of_x, at::Tensor(), at::Tensor()};
    }
    return {of_x, gradient, at::Tensor()};
  }

  static at::Tensor of(const at::Tensor& x, const at::Tensor& weight,
                       std::atomic<int>& handed_over) {
    return apply(x, weight, reinterpret_cast<std::int64_t>(&handed_over));
  }
};

}  // namespace brigade::distribute

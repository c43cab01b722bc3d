#include "brigade/layers/deferred_convolution.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The gradients of weight and bias, which are computed together: whoever needs one first computes
/// them, and the other waits here.
class WeightAndBias {
 public:
  WeightAndBias(ConvolutionBackward backward, bool with_bias, std::int64_t bytes)
      : backward_(std::move(backward)), with_bias_(with_bias), bytes_(bytes) {}

  std::int64_t bytes() const { return bytes_; }
  at::Tensor take(at::Tensor ConvolutionGradients::*which) const {
    const at::NoGradGuard no_grad;
    const std::lock_guard lock(mutex_);
    if (!(gradients_.*which).defined()) gradients_ = backward_({false, true, with_bias_});
    return std::exchange(gradients_.*which, at::Tensor());
  }

 private:
  const ConvolutionBackward backward_;
  const bool with_bias_;
  const std::int64_t bytes_;
  mutable std::mutex mutex_;  // guards the rest
  mutable ConvolutionGradients gradients_;
};

class DeferredWeight final : public variables::DeferredGradient {
 public:
  DeferredWeight(const at::Tensor& weight, std::shared_ptr<const WeightAndBias> both)
      : DeferredGradient(weight), both_(std::move(both)) {}
  std::int64_t bytes() const override { return both_->bytes(); }
  at::Tensor compute() const override { return both_->take(&ConvolutionGradients::weight); }

 private:
  const std::shared_ptr<const WeightAndBias> both_;
};

class DeferredBias final : public variables::DeferredGradient {
 public:
  DeferredBias(const at::Tensor& bias, std::shared_ptr<const WeightAndBias> both)
      : DeferredGradient(bias), both_(std::move(both)) {}
  std::int64_t bytes() const override { return both_->bytes(); }
  at::Tensor compute() const override { return both_->take(&ConvolutionGradients::bias); }
  bool is_by_product() const override { return true; }

 private:
  const std::shared_ptr<const WeightAndBias> both_;
};

/// What the backward pass of `at::conv2d` has.
struct Convolution {
  at::Tensor images, weight;
  std::optional<std::vector<std::int64_t>> bias_sizes;
  std::vector<std::int64_t> stride, padding, dilation;
  std::int64_t groups = 1;

  ConvolutionGradients backward(const at::Tensor& gradient, std::array<bool, 3> wanted) const {
    const std::vector<std::int64_t> no_output_padding = {0, 0};
    auto [of_images, of_weight, of_bias] = at::convolution_backward(
        gradient, images, weight,
        bias_sizes ? at::OptionalIntArrayRef(*bias_sizes) : at::OptionalIntArrayRef(), stride,
        padding, dilation, /*transposed=*/false, no_output_padding, groups, wanted);
    return {.images = of_images, .weight = of_weight, .bias = of_bias};
  }
};

class DeferrableConv2d : public torch::autograd::Function<DeferrableConv2d> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& weight, const at::Tensor& bias, bool has_bias,
                            const std::vector<std::int64_t>& stride,
                            const std::vector<std::int64_t>& padding,
                            const std::vector<std::int64_t>& dilation, std::int64_t groups) {
    context->save_for_backward({images, weight, bias});
    context->saved_data["has_bias"] = has_bias;
    context->saved_data["stride"] = stride;
    context->saved_data["padding"] = padding;
    context->saved_data["dilation"] = dilation;
    context->saved_data["groups"] = groups;
    return at::conv2d(images, weight, has_bias ? bias : at::Tensor(), stride, padding, dilation,
                      groups);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &weight = saved[1], &bias = saved[2], &gradient = gradients[0];
    Convolution convolution{.images = saved[0],
                            .weight = weight,
                            .bias_sizes = std::nullopt,
                            .stride = context->saved_data["stride"].toIntVector(),
                            .padding = context->saved_data["padding"].toIntVector(),
                            .dilation = context->saved_data["dilation"].toIntVector(),
                            .groups = context->saved_data["groups"].toInt()};
    if (context->saved_data["has_bias"].toBool()) convolution.bias_sizes = bias.sizes().vec();
    std::array<bool, 3> wanted = {context->needs_input_grad(0), context->needs_input_grad(1),
                                  context->needs_input_grad(2)};
    const auto bytes = static_cast<std::int64_t>(saved[0].nbytes() + gradient.nbytes());
    const bool handed_over = defer_gradients(weight, bias, wanted, bytes, [&] {
      Convolution own = convolution;
      own.images = own.images.clone();
      return ConvolutionBackward(
          [own, gradient](std::array<bool, 3> mask) { return own.backward(gradient, mask); });
    });
    if (handed_over) wanted = {wanted[0], false, false};
    ConvolutionGradients computed;
    if (wanted != std::array<bool, 3>{}) computed = convolution.backward(gradient, wanted);
    return {computed.images, computed.weight, computed.bias, {}, {}, {}, {}, {}};
  }
};

}  // namespace

bool defer_gradients(const at::Tensor& weight, const at::Tensor& bias, std::array<bool, 3> wanted,
                     std::int64_t bytes, const std::function<ConvolutionBackward()>& make) {
  if (!wanted[1] || at::GradMode::is_enabled()) return false;
  variables::GradientDeferral* const deferral = variables::gradient_deferral(weight, bytes);
  if (deferral == nullptr || (wanted[2] && !deferral->takes(bias, bytes))) return false;
  const auto both = std::make_shared<const WeightAndBias>(make(), wanted[2], bytes);
  deferral->take(std::make_shared<const DeferredWeight>(weight, both));
  if (wanted[2]) deferral->take(std::make_shared<const DeferredBias>(bias, both));
  return true;
}

at::Tensor deferrable_conv2d(const at::Tensor& images, const at::Tensor& weight,
                             const at::Tensor& bias, std::array<std::int64_t, 2> stride,
                             std::array<std::int64_t, 2> padding,
                             std::array<std::int64_t, 2> dilation, std::int64_t groups) {
  const bool is_cast = device::AutocastState::current().dtype(images.device().type()).has_value();
  const bool may_defer =
      comm::is_in_pipeline() && at::GradMode::is_enabled() && !is_cast && images.device().is_cpu();
  if (!may_defer) return at::conv2d(images, weight, bias, stride, padding, dilation, groups);
  const auto vector_of = [](std::array<std::int64_t, 2> pair) {
    return std::vector<std::int64_t>(pair.begin(), pair.end());
  };
  // An input of a function of autograd is defined.
  const at::Tensor given =
      bias.defined() ? bias : at::empty({0}, weight.options().requires_grad(false));
  return DeferrableConv2d::apply(images, weight, given, bias.defined(), vector_of(stride),
                                 vector_of(padding), vector_of(dilation), groups);
}

}  // namespace brigade::layers

#include "brigade/layers/deferred_convolution.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/device/autograd_function.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::layers {
namespace {

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

struct Conv2dNumbers {
  std::array<std::int64_t, 2> stride, padding, dilation;
  std::int64_t groups;
};

/// What the backward pass of `at::conv2d` has.
struct Convolution {
  at::Tensor images, weight;
  std::optional<std::vector<std::int64_t>> bias_sizes;
  Conv2dNumbers numbers;

  ConvolutionGradients backward(const at::Tensor& gradient, std::array<bool, 3> wanted) const {
    const std::vector<std::int64_t> no_output_padding = {0, 0};
    auto [of_images, of_weight, of_bias] = at::convolution_backward(
        gradient, images, weight,
        bias_sizes ? at::OptionalIntArrayRef(*bias_sizes) : at::OptionalIntArrayRef(),
        numbers.stride, numbers.padding, numbers.dilation, /*transposed=*/false, no_output_padding,
        numbers.groups, wanted);
    return {.images = of_images, .weight = of_weight, .bias = of_bias};
  }
};

class DeferrableConv2d final : public device::AutogradFunction {
 public:
  explicit DeferrableConv2d(const Conv2dNumbers& numbers) : numbers_(numbers) {}

 private:
  at::Tensor forward(const Tensors& inputs) override {
    save_for_backward(inputs);
    return at::conv2d(inputs[0], inputs[1], inputs[2], numbers_.stride, numbers_.padding,
                      numbers_.dilation, numbers_.groups);
  }

  Tensors backward(const Tensors& gradients) override {
    const Tensors inputs = saved();
    const at::Tensor &images = inputs[0], &weight = inputs[1], &bias = inputs[2];
    const at::Tensor& gradient = gradients[0];
    Convolution convolution{
        .images = images, .weight = weight, .bias_sizes = std::nullopt, .numbers = numbers_};
    if (bias.defined()) convolution.bias_sizes = bias.sizes().vec();
    std::array<bool, 3> wanted = {needs_gradient(0), needs_gradient(1), needs_gradient(2)};
    const auto bytes = static_cast<std::int64_t>(images.nbytes() + gradient.nbytes());
    const bool handed_over = defer_gradients(weight, bias, wanted, bytes, [&] {
      Convolution own = convolution;
      own.images = own.images.clone();
      return ConvolutionBackward(
          [own, gradient](std::array<bool, 3> mask) { return own.backward(gradient, mask); });
    });
    if (handed_over) wanted = {wanted[0], false, false};
    ConvolutionGradients computed;
    if (wanted != std::array<bool, 3>{}) computed = convolution.backward(gradient, wanted);
    return {computed.images, computed.weight, computed.bias};
  }

  const Conv2dNumbers numbers_;
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
  return device::apply_function<DeferrableConv2d>(
      {images, weight, bias},
      Conv2dNumbers{.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
}

}  // namespace brigade::layers

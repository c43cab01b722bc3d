#include "brigade/layers/max_pool_relu.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/pool_kernel.h"

namespace brigade::layers {
namespace {

class MaxPoolRelu : public torch::autograd::Function<MaxPoolRelu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images) {
    const auto& sizes = images.sizes();
    auto out = at::empty({sizes[0], sizes[1], sizes[2] / 2, sizes[3] / 2}, images.options());
    auto choices = at::empty(out.sizes(), images.options().dtype(at::kByte));
    pool_relu(images, out, choices);
    context->saved_data["choices"] = std::move(choices);
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    if (at::GradMode::is_enabled() && gradients[0].requires_grad()) {
      throw Error(ErrorCode::kUnimplemented,
                  "max_pool2x2_relu cannot be differentiated twice: for gradients of gradients use "
                  "at::relu(at::max_pool2d(images, 2))");
    }
    const auto gradient = gradients[0].contiguous();
    const auto choices = context->saved_data["choices"].toTensor();
    const auto& sizes = gradient.sizes();
    auto result = at::empty({sizes[0], sizes[1], sizes[2] * 2, sizes[3] * 2}, gradient.options());
    spread_gradient(gradient, choices, result);
    return {result};
  }
};

}  // namespace

at::Tensor max_pool2x2_relu(const at::Tensor& images) {
  if (!images.defined() || images.dim() != 4) {
    const auto shape = images.defined() ? base::str_cat(images.sizes()) : "(undefined)";
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("max_pool2x2_relu: images have shape ", shape,
                              "; expected [examples, channels, height, width]"));
  }
  if (fits_pool_kernel(images)) return MaxPoolRelu::apply(images);
  return at::relu(at::max_pool2d(images, 2, 2));
}

}  // namespace brigade::layers

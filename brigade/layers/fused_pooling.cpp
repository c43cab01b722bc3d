#include "brigade/layers/fused_pooling.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/pool_kernel.h"

namespace brigade::layers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// About the size of a core's second-level cache, for a convolution's result.
constexpr std::int64_t kPieceBytes = 2 << 20;

std::int64_t padding(const at::Tensor& weight) {
  return weight.size(2) / 2;
}

/// Calls `work` with the first example and the number of examples of every piece of the batch.
template <class Work>
void for_each_piece(const at::Tensor& images, const at::Tensor& weight, const Work& work) {
  const auto count = images.size(0);
  const auto bytes = weight.size(0) * images.size(2) * images.size(3) * images.element_size();
  const auto pieces =
      std::clamp<std::int64_t>((count * bytes + kPieceBytes - 1) / kPieceBytes, 1, count);
  const auto most = (count + pieces - 1) / pieces;
  for (std::int64_t first = 0; first < count; first += most) {
    work(first, std::min(most, count - first));
  }
}

void add_to(at::Tensor& sum, const at::Tensor& part) {
  if (!part.defined()) return;
  if (sum.defined()) {
    sum.add_(part);
  } else {
    sum = part;
  }
}

class ConvPoolRelu : public torch::autograd::Function<ConvPoolRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& weight, const at::Tensor& bias) {
    auto out = at::empty({images.size(0), weight.size(0), images.size(2) / 2, images.size(3) / 2},
                         images.options());
    auto choices = at::empty(out.sizes(), out.options().dtype(at::kByte));
    for_each_piece(images, weight, [&](std::int64_t first, std::int64_t count) {
      const auto large =
          at::conv2d(images.narrow(0, first, count), weight, bias, 1, padding(weight)).contiguous();
      auto out_piece = out.narrow(0, first, count), choices_piece = choices.narrow(0, first, count);
      pool_relu(large, out_piece, choices_piece);
    });
    context->save_for_backward({images, weight});
    context->saved_data["choices"] = std::move(choices);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled() && gradients[0].requires_grad()) {
      throw Error(ErrorCode::kUnimplemented,
                  "conv_pool_relu cannot be differentiated twice: for gradients of gradients use "
                  "at::conv2d, at::max_pool2d and at::relu");
    }
    const auto saved = context->get_saved_variables();
    const auto &images = saved[0], &weight = saved[1];
    const auto choices = context->saved_data["choices"].toTensor();
    const auto gradient = gradients[0].contiguous();
    const std::array<bool, 3> wanted = {context->needs_input_grad(0), context->needs_input_grad(1),
                                        context->needs_input_grad(2)};
    at::Tensor of_images = wanted[0] ? at::empty_like(images) : at::Tensor(), of_weight, of_bias;
    for_each_piece(images, weight, [&](std::int64_t first, std::int64_t count) {
      auto large =
          at::empty({count, weight.size(0), images.size(2), images.size(3)}, gradient.options());
      spread_gradient(gradient.narrow(0, first, count), choices.narrow(0, first, count), large);
      const auto [images_piece, weight_piece, bias_piece] =
          convolution_backward(large, images.narrow(0, first, count), weight, wanted);
      if (wanted[0]) of_images.narrow(0, first, count).copy_(images_piece);
      add_to(of_weight, weight_piece);
      add_to(of_bias, bias_piece);
    });
    return {of_images, of_weight, of_bias};
  }

 private:
  static std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
      const at::Tensor& gradient, const at::Tensor& images, const at::Tensor& weight,
      std::array<bool, 3> wanted) {
    const std::array<std::int64_t, 1> bias_sizes = {weight.size(0)};
    const std::array<std::int64_t, 2> paddings = {padding(weight), padding(weight)};
    return at::convolution_backward(gradient, images, weight, at::IntArrayRef(bias_sizes),
                                    /*stride=*/{1, 1}, paddings, /*dilation=*/{1, 1},
                                    /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1,
                                    wanted);
  }
};

std::string shape(const at::Tensor& tensor) {
  return tensor.defined() ? base::str_cat(tensor.sizes()) : "(undefined)";
}

void check(const at::Tensor& images, const at::Tensor& weight, const at::Tensor& bias) {
  const bool fits = images.defined() && weight.defined() && bias.defined() && images.dim() == 4 &&
                    weight.dim() == 4 && images.size(1) == weight.size(1) &&
                    weight.size(2) == weight.size(3) && weight.size(2) % 2 == 1 &&
                    bias.dim() == 1 && bias.size(0) == weight.size(0);
  if (fits) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("conv_pool_relu: images have shape ", shape(images), ", weight ",
                            shape(weight), ", bias ", shape(bias),
                            "; expected [N, in, H, W], [out, in, k, k] with odd k, [out]"));
}

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

at::Tensor conv_pool_relu(const at::Tensor& images, const at::Tensor& weight,
                          const at::Tensor& bias) {
  check(images, weight, bias);
  const bool same_type = weight.scalar_type() == images.scalar_type() && weight.device().is_cpu();
  if (same_type && images.is_contiguous() && weight.is_contiguous() &&
      fits_pool_kernel(images, images.size(2), images.size(3))) {
    return ConvPoolRelu::apply(images, weight, bias);
  }
  return max_pool2x2_relu(at::conv2d(images, weight, bias, 1, padding(weight)));
}

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

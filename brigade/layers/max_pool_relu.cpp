#include "brigade/layers/max_pool_relu.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::layers {
namespace {

// Which of the window's four values (in reading order) became the output; kNone where relu cut it
// off.
using Choice = std::uint8_t;
constexpr Choice kNone = 4;

// The loops below are written so that the compiler makes them vectors: selections instead of
// branches, no bool short cuts, one row of outputs at a time.
template <class T>
inline void pool_row(const T* __restrict upper, const T* __restrict lower, T* __restrict out,
                     Choice* __restrict choices, std::int64_t width) {
  for (std::int64_t j = 0; j < width; ++j) {
    T best = upper[2 * j];
    std::int32_t choice = 0;
    const auto consider = [&](T value, std::int32_t index) {
      const bool take = (value > best) | (value != value);
      best = take ? value : best;
      choice = take ? index : choice;
    };
    consider(upper[2 * j + 1], 1);
    consider(lower[2 * j], 2);
    consider(lower[2 * j + 1], 3);
    const bool cut = best <= T(0);
    out[j] = cut ? T(0) : best;
    choices[j] = static_cast<Choice>(cut ? kNone : choice);
  }
}

template <class T>
inline void spread_row(const T* __restrict gradient, const Choice* __restrict choices,
                       T* __restrict upper, T* __restrict lower, std::int64_t width) {
  for (std::int64_t j = 0; j < width; ++j) {
    const T value = gradient[j];
    const std::int32_t choice = choices[j];
    upper[2 * j] = choice == 0 ? value : T(0);
    upper[2 * j + 1] = choice == 1 ? value : T(0);
    lower[2 * j] = choice == 2 ? value : T(0);
    lower[2 * j + 1] = choice == 3 ? value : T(0);
  }
}

template <class T>
void pool(const at::Tensor& images, at::Tensor& out, at::Tensor& choices) {
  const auto width = out.size(3);
  const auto rows = out.numel() / width;
  const T* in = images.const_data_ptr<T>();
  T* result = out.mutable_data_ptr<T>();
  Choice* chosen = choices.mutable_data_ptr<Choice>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* upper = in + row * 4 * width;
    pool_row(upper, upper + 2 * width, result + row * width, chosen + row * width, width);
  }
}

template <class T>
void spread(const at::Tensor& gradient, const at::Tensor& choices, at::Tensor& result) {
  const auto width = gradient.size(3);
  const auto rows = gradient.numel() / width;
  const T* from = gradient.const_data_ptr<T>();
  const Choice* chosen = choices.const_data_ptr<Choice>();
  T* to = result.mutable_data_ptr<T>();
  for (std::int64_t row = 0; row < rows; ++row) {
    T* upper = to + row * 4 * width;
    spread_row(from + row * width, chosen + row * width, upper, upper + 2 * width, width);
  }
}

class MaxPoolRelu : public torch::autograd::Function<MaxPoolRelu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& images) {
    const auto& sizes = images.sizes();
    auto out = at::empty({sizes[0], sizes[1], sizes[2] / 2, sizes[3] / 2}, images.options());
    auto choices = at::empty(out.sizes(), images.options().dtype(at::kByte));
    if (images.scalar_type() == at::kFloat) {
      pool<float>(images, out, choices);
    } else {
      pool<double>(images, out, choices);
    }
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
    if (gradient.scalar_type() == at::kFloat) {
      spread<float>(gradient, choices, result);
    } else {
      spread<double>(gradient, choices, result);
    }
    return {result};
  }
};

bool fits_kernel(const at::Tensor& images) {
  const auto type = images.scalar_type();
  return images.device().is_cpu() && images.layout() == at::kStrided && images.is_contiguous() &&
         (type == at::kFloat || type == at::kDouble) && images.size(2) % 2 == 0 &&
         images.size(3) % 2 == 0 && images.numel() > 0;
}

}  // namespace

at::Tensor max_pool2x2_relu(const at::Tensor& images) {
  if (!images.defined() || images.dim() != 4) {
    const auto shape = images.defined() ? base::str_cat(images.sizes()) : "(undefined)";
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("max_pool2x2_relu: images have shape ", shape,
                              "; expected [examples, channels, height, width]"));
  }
  if (fits_kernel(images)) return MaxPoolRelu::apply(images);
  return at::relu(at::max_pool2d(images, 2, 2));
}

}  // namespace brigade::layers

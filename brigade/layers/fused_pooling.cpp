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
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/layers/deferred_convolution.h"

namespace brigade::layers {
namespace {

// Which of the window's four values (in reading order) became the output; kNone where relu cut it
// off.
using Choice = std::uint8_t;
constexpr Choice kNone = 4;

// g++ does not vectorize these loops, and the branches that it generates are often mispredicted: 32
// ms instead of 4. So they are written with vectors of 16 bytes, which every target supports.
template <class T>
struct Lanes {
  static constexpr std::int64_t kCount = 16 / sizeof(T);
  using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Values [[gnu::vector_size(16)]] = T;
  using Choices [[gnu::vector_size(16)]] = Integer;
  using Packed [[gnu::vector_size(kCount)]] = Choice;
};

template <class V, class T>
V load(const T* from) {
  V vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

template <class V, class T>
void store(T* to, const V& vector) {
  std::memcpy(to, &vector, sizeof vector);
}

/// The values at even and at odd positions of two adjacent vectors, and the inverse.
struct Pairs {
  template <class V>
  static V even(V a, V b) {
    if constexpr (sizeof(a[0]) == 4) {
      return __builtin_shufflevector(a, b, 0, 2, 4, 6);
    } else {
      return __builtin_shufflevector(a, b, 0, 2);
    }
  }
  template <class V>
  static V odd(V a, V b) {
    if constexpr (sizeof(a[0]) == 4) {
      return __builtin_shufflevector(a, b, 1, 3, 5, 7);
    } else {
      return __builtin_shufflevector(a, b, 1, 3);
    }
  }
  template <class V>
  static V first_half(V evens, V odds) {
    if constexpr (sizeof(evens[0]) == 4) {
      return __builtin_shufflevector(evens, odds, 0, 4, 1, 5);
    } else {
      return __builtin_shufflevector(evens, odds, 0, 2);
    }
  }
  template <class V>
  static V second_half(V evens, V odds) {
    if constexpr (sizeof(evens[0]) == 4) {
      return __builtin_shufflevector(evens, odds, 2, 6, 3, 7);
    } else {
      return __builtin_shufflevector(evens, odds, 1, 3);
    }
  }
};

/// One vector of outputs, from the two rows of the image that they stand for.
template <class T>
void pool_lanes(const T* upper, const T* lower, T* out, Choice* choices) {
  using L = Lanes<T>;
  using Values = typename L::Values;
  using Choices = typename L::Choices;
  const auto up0 = load<Values>(upper), up1 = load<Values>(upper + L::kCount);
  const auto low0 = load<Values>(lower), low1 = load<Values>(lower + L::kCount);
  Values best = Pairs::even(up0, up1);
  Choices choice{};
  const auto consider = [&](Values value, typename L::Integer index) {
    const Choices take = (value > best) | (value != value);
    best = take ? value : best;
    choice = take ? Choices{} + index : choice;
  };
  consider(Pairs::odd(up0, up1), 1);
  consider(Pairs::even(low0, low1), 2);
  consider(Pairs::odd(low0, low1), 3);
  const Choices cut = best <= Values{};
  store(out, cut ? Values{} : best);
  choice = cut ? Choices{} + kNone : choice;
  store(choices, __builtin_convertvector(choice, typename L::Packed));
}

/// The gradient of two rows of the image, from one vector of gradients of outputs.
template <class T>
void spread_lanes(const T* gradient, const Choice* choices, T* upper, T* lower) {
  using L = Lanes<T>;
  using Values = typename L::Values;
  const auto value = load<Values>(gradient);
  const auto packed = load<typename L::Packed>(choices);
  const auto choice = __builtin_convertvector(packed, typename L::Choices);
  const auto pick = [&](typename L::Integer index) { return choice == index ? value : Values{}; };
  const auto up0 = pick(0), up1 = pick(1), low0 = pick(2), low1 = pick(3);
  store(upper, Pairs::first_half(up0, up1));
  store(upper + L::kCount, Pairs::second_half(up0, up1));
  store(lower, Pairs::first_half(low0, low1));
  store(lower + L::kCount, Pairs::second_half(low0, low1));
}

/// Calls `work` with the first position of each vector in a row. If the row does not divide evenly,
/// the last vector overlaps the previous one: some outputs are computed twice, which is faster than
/// one by one.
template <class T, class Work>
void for_each_vector(std::int64_t width, const Work& work) {
  constexpr auto kCount = Lanes<T>::kCount;
  for (std::int64_t j = 0; j + kCount <= width; j += kCount) work(j);
  if (width % kCount != 0) work(width - kCount);
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
    for_each_vector<T>(width, [&](std::int64_t j) {
      const auto at = row * width + j;
      pool_lanes(upper + 2 * j, upper + 2 * width + 2 * j, result + at, chosen + at);
    });
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
    for_each_vector<T>(width, [&](std::int64_t j) {
      const auto at = row * width + j;
      spread_lanes(from + at, chosen + at, upper + 2 * j, upper + 2 * width + 2 * j);
    });
  }
}

// One vector of float outputs.
constexpr std::int64_t kNarrowest = 8;

/// Whether the kernels support images of this dtype, device and layout, with this height and width.
bool fits_pool_kernel(const at::Tensor& like, std::int64_t height, std::int64_t width) {
  const auto type = like.scalar_type();
  return like.device().is_cpu() && like.layout() == at::kStrided &&
         (type == at::kFloat || type == at::kDouble) && height > 0 && height % 2 == 0 &&
         width % 2 == 0 && width >= kNarrowest && like.numel() > 0;
}

bool fits_pool_kernel(const at::Tensor& images) {
  return fits_pool_kernel(images, images.size(2), images.size(3)) && images.is_contiguous();
}

/// Writes the largest of every 2x2 window of `images` [N, C, H, W], or 0 if that is more, to `out`
/// [N, C, H/2, W/2], and to `choices` (bytes, same shape) which of the four it was. All contiguous.
void pool_relu(const at::Tensor& images, at::Tensor& out, at::Tensor& choices) {
  if (images.scalar_type() == at::kFloat) {
    pool<float>(images, out, choices);
  } else {
    pool<double>(images, out, choices);
  }
}

/// The backward: writes the gradient of the images to `result` from that of the outputs. All
/// contiguous.
void spread_gradient(const at::Tensor& gradient, const at::Tensor& choices, at::Tensor& result) {
  if (gradient.scalar_type() == at::kFloat) {
    spread<float>(gradient, choices, result);
  } else {
    spread<double>(gradient, choices, result);
  }
}

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

/// What a backward pass has of a convolution with pooling.
struct ConvBackward {
  at::Tensor images, weight;
  at::Tensor choices;   // of the pools
  at::Tensor gradient;  // of the outputs, contiguous

  ConvolutionGradients compute(std::array<bool, 3> wanted) const {
    ConvolutionGradients sums;
    if (wanted[0]) sums.images = at::empty_like(images);
    for_each_piece(images, weight, [&](std::int64_t first, std::int64_t count) {
      auto large =
          at::empty({count, weight.size(0), images.size(2), images.size(3)}, gradient.options());
      spread_gradient(gradient.narrow(0, first, count), choices.narrow(0, first, count), large);
      const auto [of_images, of_weight, of_bias] =
          of_piece(large, images.narrow(0, first, count), wanted);
      if (wanted[0]) sums.images.narrow(0, first, count).copy_(of_images);
      add_to(sums.weight, of_weight);
      add_to(sums.bias, of_bias);
    });
    return sums;
  }

  std::int64_t bytes() const {
    return static_cast<std::int64_t>(images.nbytes() + choices.nbytes() + gradient.nbytes());
  }

 private:
  std::tuple<at::Tensor, at::Tensor, at::Tensor> of_piece(const at::Tensor& large,
                                                          const at::Tensor& piece,
                                                          std::array<bool, 3> wanted) const {
    const std::array<std::int64_t, 1> bias_sizes = {weight.size(0)};
    const std::array<std::int64_t, 2> paddings = {padding(weight), padding(weight)};
    return at::convolution_backward(large, piece, weight, at::IntArrayRef(bias_sizes),
                                    /*stride=*/{1, 1}, paddings, /*dilation=*/{1, 1},
                                    /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1,
                                    wanted);
  }
};

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
    context->save_for_backward({images, weight, bias});
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
    const ConvBackward backward{.images = saved[0],
                                .weight = saved[1],
                                .choices = context->saved_data["choices"].toTensor(),
                                .gradient = gradients[0].contiguous()};
    std::array<bool, 3> wanted = {context->needs_input_grad(0), context->needs_input_grad(1),
                                  context->needs_input_grad(2)};
    const auto owned = [&backward] {
      ConvBackward own = backward;
      own.images = own.images.clone();
      return ConvolutionBackward([own](std::array<bool, 3> mask) { return own.compute(mask); });
    };
    if (defer_gradients(saved[1], saved[2], wanted, backward.bytes(), owned))
      wanted = {wanted[0], false, false};
    ConvolutionGradients computed;
    if (wanted != std::array<bool, 3>{}) computed = backward.compute(wanted);
    return {computed.images, computed.weight, computed.bias};
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
  throw Error(ErrorCode::kInvalidArgument, "conv_pool_relu: images have shape ", shape(images),
              ", weight ", shape(weight), ", bias ", shape(bias),
              "; expected [N, in, H, W], [out, in, k, k] with odd k, [out]");
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
  const bool is_cast = device::AutocastState::current().dtype(images.device().type()).has_value();
  const bool same_type =
      !is_cast && weight.scalar_type() == images.scalar_type() && weight.device().is_cpu();
  if (same_type && images.is_contiguous() && weight.is_contiguous() &&
      fits_pool_kernel(images, images.size(2), images.size(3))) {
    return ConvPoolRelu::apply(images, weight, bias);
  }
  return max_pool2x2_relu(at::conv2d(images, weight, bias, 1, padding(weight)));
}

at::Tensor max_pool2x2_relu(const at::Tensor& images) {
  if (!images.defined() || images.dim() != 4) {
    const auto shape = images.defined() ? base::str_cat(images.sizes()) : "(undefined)";
    throw Error(ErrorCode::kInvalidArgument, "max_pool2x2_relu: images have shape ", shape,
                "; expected [examples, channels, height, width]");
  }
  if (fits_pool_kernel(images)) return MaxPoolRelu::apply(images);
  return at::relu(at::max_pool2d(images, 2, 2));
}

}  // namespace brigade::layers

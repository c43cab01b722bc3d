#include "brigade/checkpoint/weights_layout.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::checkpoint {
namespace {

constexpr std::string_view kAttributeSuffix = "/.ATTRIBUTES/VARIABLE_VALUE";
constexpr std::string_view kAverageSuffix = "/ExponentialMovingAverage";
constexpr std::array<std::string_view, 4> kKernels = {"weights", "kernel", "pointwise_weights",
                                                      "pointwise_kernel"};
constexpr std::array<std::string_view, 2> kDepthwiseKernels = {"depthwise_weights",
                                                               "depthwise_kernel"};

std::string_view without(std::string_view name, std::string_view suffix) {
  if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return name;
}

std::string_view last_component(std::string_view name) {
  return name.substr(name.find_last_of("/.") + 1);
}

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// [window..., in, out] to [out, in, window...]; a matrix has no window.
at::Tensor kernel_to_torch(const at::Tensor& value) {
  std::vector<std::int64_t> order = {value.dim() - 1, value.dim() - 2};
  for (std::int64_t i = 0; i + 2 < value.dim(); ++i) order.push_back(i);
  return value.permute(order);
}

at::Tensor depthwise_to_torch(const at::Tensor& value) {
  const std::int64_t height = value.size(0), width = value.size(1);
  return value.permute({2, 3, 0, 1}).reshape({value.size(2) * value.size(3), 1, height, width});
}

// [height * width * channels, out] to [out, channels * height * width].
at::Tensor flattened_to_torch(const at::Tensor& value, const FlattenedImage& image) {
  const std::int64_t outputs = value.size(1);
  return value.reshape({image.height, image.width, image.channels, outputs})
      .permute({3, 2, 0, 1})
      .reshape({outputs, value.size(0)});
}

void check_flattened(const at::Tensor& value, const FlattenedImage& image,
                     std::string_view variable, std::string_view stored, bool is_kernel) {
  const bool is_image = std::min({image.channels, image.height, image.width}) > 0;
  std::int64_t inputs = 0;
  const bool is_small = is_image && !__builtin_mul_overflow(image.height, image.width, &inputs) &&
                        !__builtin_mul_overflow(inputs, image.channels, &inputs);
  if (is_kernel && value.dim() == 2 && is_small && value.size(0) == inputs) return;
  throw Error(ErrorCode::kInvalidArgument, "the layer of ", base::quoted(variable),
              " is said to follow images [", image.channels, ", ", image.height, ", ", image.width,
              "], and ", base::quoted(stored), " is [", base::join(value.sizes(), ", "),
              "]; expected weights [height * width * channels, outputs]");
}

}  // namespace

std::string_view without_attribute_suffix(std::string_view stored) {
  return without(stored, kAttributeSuffix);
}

at::Tensor to_torch_layout(const at::Tensor& value, std::string_view stored,
                           std::string_view variable,
                           const std::optional<FlattenedImage>& flattened) {
  const std::string_view kind =
      last_component(without(without_attribute_suffix(stored), kAverageSuffix));
  const bool is_kernel = is_among(kind, kKernels);
  const bool is_depthwise = is_among(kind, kDepthwiseKernels) ||
                            (is_kernel && is_among(last_component(variable), kDepthwiseKernels));
  if (flattened) {
    check_flattened(value, *flattened, variable, stored, is_kernel && !is_depthwise);
    return flattened_to_torch(value, *flattened);
  }
  if (is_depthwise && value.dim() == 4) return depthwise_to_torch(value);
  if (is_kernel && value.dim() >= 2 && value.dim() <= 5) return kernel_to_torch(value);
  return value;
}

}  // namespace brigade::checkpoint

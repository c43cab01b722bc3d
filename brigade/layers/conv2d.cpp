#include "brigade/layers/conv2d.h"

#include "brigade/layers/layer_scope.h"

namespace brigade::layers {
namespace {

at::Tensor get_pointwise_weights(std::int64_t outputs, const at::Tensor& like,
                                 std::int64_t channels, LayerArguments arguments,
                                 const variables::Initializer& initializer) {
  if (initializer) arguments.weights_initializer = initializer;
  return get_weights("pointwise_weights", {outputs, channels, 1, 1}, like, arguments);
}

}  // namespace

at::Tensor conv2d(const at::Tensor& images, std::int64_t num_outputs, Size2d kernel,
                  const Conv2dOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<conv2d>, options);
  const SlidingWindow window{.size = kernel,
                             .stride = arguments.stride.value_or(1),
                             .rate = arguments.rate.value_or(1),
                             .padding = arguments.padding.value_or(Padding::kSame)};
  check_window("conv2d", images, window);
  check_outputs("conv2d", num_outputs);
  check_groups("conv2d", options.groups, images.size(1), num_outputs);
  const OpenLayer layer(options.scope, "Conv", arguments.reuse);
  const auto input = in_format(layer.place("Conv2D", images), arguments.memory_format);
  const auto weights = in_format(
      get_weights("weights",
                  {num_outputs, input.size(1) / options.groups, kernel.height, kernel.width}, input,
                  arguments),
      arguments.memory_format);
  const auto biases = get_biases(num_outputs, input, arguments);
  return finished(layer, arguments, convolve(input, weights, biases, window, options.groups));
}

at::Tensor separable_conv2d(const at::Tensor& images, std::optional<std::int64_t> num_outputs,
                            Size2d kernel, const SeparableConv2dOptions& options) {
  constexpr auto kName = "separable_conv2d";
  const auto arguments = arguments_in_force(kLayerKind<separable_conv2d>, options);
  const SlidingWindow window{.size = kernel,
                             .stride = arguments.stride.value_or(1),
                             .rate = arguments.rate.value_or(1),
                             .padding = arguments.padding.value_or(Padding::kSame)};
  check_window(kName, images, window);
  check_outputs(kName, num_outputs.value_or(1));
  check_outputs(kName, options.depth_multiplier);
  const OpenLayer layer(options.scope, "SeparableConv2d", arguments.reuse);
  const auto input = in_format(layer.place("separable_conv2d", images), arguments.memory_format);
  const auto groups = input.size(1), channels = groups * options.depth_multiplier;
  const auto depthwise =
      in_format(get_weights("depthwise_weights", {channels, 1, kernel.height, kernel.width}, input,
                            arguments),
                arguments.memory_format);
  if (!num_outputs) {
    const auto biases = get_biases(channels, input, arguments);
    return finished(layer, arguments, convolve(input, depthwise, biases, window, groups));
  }
  const auto pointwise = get_pointwise_weights(*num_outputs, input, channels, arguments,
                                               options.pointwise_initializer);
  const auto biases = get_biases(*num_outputs, input, arguments);
  const auto apart = convolve(input, depthwise, {}, window, groups);
  return finished(layer, arguments, convolve(apart, pointwise, biases, SlidingWindow{}));
}

}  // namespace brigade::layers

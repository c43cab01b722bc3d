#include "brigade/layers/conv2d.h"

#include "brigade/layers/checks.h"

namespace brigade::layers {

at::Tensor conv2d(const at::Tensor& images, std::int64_t num_outputs, Size2d kernel,
                  const Conv2dOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<conv2d>, options);
  const SlidingWindow window{.size = kernel,
                             .stride = arguments.stride.value_or(1),
                             .rate = arguments.rate.value_or(1),
                             .padding = arguments.padding.value_or(Padding::kSame)};
  check_window("conv2d", images, window);
  check_outputs("conv2d", num_outputs);
  const OpenLayer layer(options.scope, "Conv", arguments.reuse);
  const auto input = layer.place("Conv2D", images);
  const auto weights = get_weights(
      "weights", {num_outputs, input.size(1), kernel.height, kernel.width}, input, arguments);
  const auto biases = get_biases(num_outputs, input, arguments);
  return finished(layer, arguments, convolve(input, weights, biases, window));
}

}  // namespace brigade::layers

#include "brigade/layers/v1/convolution.h"

#include "brigade/layers/checks.h"
#include "brigade/layers/v1/layer_variables.h"

namespace brigade::layers::v1 {

at::Tensor conv2d(const at::Tensor& inputs, std::int64_t filters, Size2d kernel_size,
                  const Conv2dOptions& options) {
  const SlidingWindow window{.size = kernel_size,
                             .stride = options.strides,
                             .rate = options.dilation_rate,
                             .padding = options.padding};
  check_window("conv2d", inputs, window);
  check_outputs("conv2d", filters);
  const OpenLayer layer(options.name, "conv2d", options.reuse);
  const auto input = layer.place("Conv2D", inputs);
  const auto kernel =
      get_kernel({filters, input.size(1), kernel_size.height, kernel_size.width}, input, options);
  const auto bias = get_bias(filters, input, options);
  return activate(options.activation, convolve(input, kernel, bias, window));
}

}  // namespace brigade::layers::v1

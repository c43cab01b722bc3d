#include "brigade/layers/v1/pooling2d.h"

namespace brigade::layers::v1 {
namespace {

SlidingWindow checked(const char* layer, const at::Tensor& inputs, Size2d size, Size2d strides,
                      Padding padding) {
  const SlidingWindow window{.size = size, .stride = strides, .padding = padding};
  check_window(layer, inputs, window);
  return window;
}

}  // namespace

at::Tensor max_pooling2d(const at::Tensor& inputs, Size2d pool_size, Size2d strides,
                         const PoolOptions& options) {
  const auto window = checked("max_pooling2d", inputs, pool_size, strides, options.padding);
  const OpenLayer layer(options.name, "max_pooling2d", std::nullopt);
  return max_pool(layer.place("MaxPool", inputs), window);
}

at::Tensor average_pooling2d(const at::Tensor& inputs, Size2d pool_size, Size2d strides,
                             const PoolOptions& options) {
  const auto window = checked("average_pooling2d", inputs, pool_size, strides, options.padding);
  const OpenLayer layer(options.name, "average_pooling2d", std::nullopt);
  return average_pool(layer.place("AvgPool", inputs), window);
}

}  // namespace brigade::layers::v1

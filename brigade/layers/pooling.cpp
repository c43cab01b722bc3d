#include "brigade/layers/pooling.h"

#include "brigade/layers/layer_scope.h"

namespace brigade::layers {
namespace {

SlidingWindow checked(const char* layer, const at::Tensor& images, Size2d size,
                      const LayerArguments& arguments) {
  const SlidingWindow window{.size = size,
                             .stride = arguments.stride.value_or(2),
                             .padding = arguments.padding.value_or(Padding::kValid),
                             .count_padding = arguments.count_padding.value_or(false)};
  check_window(layer, images, window);
  return window;
}

}  // namespace

at::Tensor max_pool2d(const at::Tensor& images, Size2d window, const PoolOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<max_pool2d>, options);
  const auto moving = checked("max_pool2d", images, window, arguments);
  const OpenOperation operation(options.scope, "MaxPool2D");
  return operation.collected(arguments.outputs_collections,
                             max_pool(operation.place("MaxPool", images), moving));
}

at::Tensor avg_pool2d(const at::Tensor& images, Size2d window, const AvgPoolOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<avg_pool2d>, options);
  const auto moving = checked("avg_pool2d", images, window, arguments);
  const OpenOperation operation(options.scope, "AvgPool2D");
  return operation.collected(arguments.outputs_collections,
                             average_pool(operation.place("AvgPool", images), moving));
}

}  // namespace brigade::layers

#include "brigade/layers/v1/tf_layers.h"

#include <ATen/ops/dropout.h>

#include "brigade/base/error.h"
#include "brigade/layers/dense_product.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/normalization.h"

namespace brigade::layers::v1 {

at::Tensor conv2d(const at::Tensor& inputs, std::int64_t filters, Size2d kernel_size,
                  const Conv2dOptions& options) {
  const SlidingWindow window{.size = kernel_size,
                             .stride = options.strides,
                             .rate = options.dilation_rate,
                             .padding = options.padding};
  check_window("conv2d", inputs, window);
  check_outputs("conv2d", filters);
  check_groups("conv2d", options.groups, inputs.size(1), filters);
  const OpenLayer layer(options.name, "conv2d", options.reuse);
  const auto input = in_format(layer.place("Conv2D", inputs), options.memory_format);
  const auto kernel = in_format(
      get_kernel({filters, input.size(1) / options.groups, kernel_size.height, kernel_size.width},
                 input, options),
      options.memory_format);
  const auto bias = get_bias(filters, input, options);
  return activate(options.activation, convolve(input, kernel, bias, window, options.groups));
}

at::Tensor dense(const at::Tensor& inputs, std::int64_t units, const DenseOptions& options) {
  check_dimensions("dense", inputs, 2);
  check_outputs("dense", units);
  const OpenLayer layer(options.name, "dense", options.reuse);
  const auto input = layer.place("MatMul", inputs);
  const auto kernel = get_kernel({units, input.size(-1)}, input, options);
  const auto bias = get_bias(units, input, options);
  return activate(options.activation, dense_product(input, kernel, bias));
}

at::Tensor dropout(const at::Tensor& inputs, const DropoutOptions& options) {
  check_dimensions("dropout", inputs, 0);
  check_argument(options.rate >= 0.0 && options.rate < 1.0, "dropout: rate is ", options.rate,
                 "; expected at least 0, less than 1");
  const OpenLayer layer(options.name, "dropout", std::nullopt);
  const auto input = layer.place("dropout", inputs);
  const bool drops = options.mode == variables::Mode::kTraining && options.rate > 0.0;
  return drops ? at::dropout(input, options.rate, /*train=*/true) : input;
}

at::Tensor flatten(const at::Tensor& inputs, const LayerScope& name) {
  check_dimensions("flatten", inputs, 2);
  const OpenLayer layer(name, "flatten", std::nullopt);
  return layer.place("Reshape", inputs).flatten(1);
}

at::Tensor batch_normalization(const at::Tensor& inputs, const BatchNormalizationOptions& options) {
  check_dimensions("batch_normalization", inputs, 2);
  const OpenLayer layer(options.name, "batch_normalization", options.reuse);
  const auto input = layer.place("FusedBatchNorm", inputs);
  const LayerArguments arguments{.trainable = options.trainable};
  const BatchNormStep step{.gamma = options.scale ? get_gamma(input, arguments) : at::Tensor(),
                           .beta = options.center ? get_beta(input, arguments) : at::Tensor(),
                           .epsilon = options.epsilon,
                           .decay = options.momentum,
                           .variance = input.dim() == 4 ? BatchNormStep::Variance::kOfDistribution
                                                        : BatchNormStep::Variance::kOfBatch,
                           .statistics = options.statistics,
                           .mode = options.mode};
  return normalized(input, get_moving_statistics(input, arguments), step);
}

at::Tensor max_pooling2d(const at::Tensor& inputs, Size2d pool_size, Size2d strides,
                         const PoolOptions& options) {
  const SlidingWindow window{.size = pool_size, .stride = strides, .padding = options.padding};
  check_window("max_pooling2d", inputs, window);
  const OpenLayer layer(options.name, "max_pooling2d", std::nullopt);
  return max_pool(layer.place("MaxPool", inputs), window);
}

at::Tensor average_pooling2d(const at::Tensor& inputs, Size2d pool_size, Size2d strides,
                             const PoolOptions& options) {
  const SlidingWindow window{.size = pool_size, .stride = strides, .padding = options.padding};
  check_window("average_pooling2d", inputs, window);
  const OpenLayer layer(options.name, "average_pooling2d", std::nullopt);
  return average_pool(layer.place("AvgPool", inputs), window);
}

}  // namespace brigade::layers::v1

#include "brigade/models/apply_layer.h"

#include "brigade/layers/conv_pool_relu.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/max_pool_relu.h"
#include "brigade/layers/softmax.h"
#include "brigade/layers/v1/batch_normalization.h"
#include "brigade/layers/v1/core.h"
#include "brigade/layers/v1/layer_variables.h"
#include "brigade/layers/v1/pooling2d.h"

namespace brigade::models {
namespace {

namespace v1 = layers::v1;
using variables::Mode;

at::Tensor apply(const Dense& layer, const std::string& name, const at::Tensor& x, Mode) {
  return v1::dense(x, layer.units,
                   {.activation = layer.activation.function(),
                    .use_bias = layer.use_bias,
                    .kernel_initializer = layer.kernel_initializer,
                    .bias_initializer = layer.bias_initializer,
                    .kernel_regularizer = layer.kernel_regularizer,
                    .bias_regularizer = layer.bias_regularizer,
                    .name = name});
}

v1::Conv2dOptions options_of(const Conv2D& layer, const std::string& name) {
  return {.strides = layer.strides,
          .padding = layer.padding,
          .dilation_rate = layer.dilation_rate,
          .use_bias = layer.use_bias,
          .kernel_initializer = layer.kernel_initializer,
          .bias_initializer = layer.bias_initializer,
          .kernel_regularizer = layer.kernel_regularizer,
          .bias_regularizer = layer.bias_regularizer,
          .name = name};
}

at::Tensor apply(const Conv2D& layer, const std::string& name, const at::Tensor& x, Mode) {
  v1::Conv2dOptions options = options_of(layer, name);
  options.activation = layer.activation.function();
  return v1::conv2d(x, layer.filters, layer.kernel_size, options);
}

at::Tensor apply(const MaxPooling2D& layer, const std::string& name, const at::Tensor& x, Mode) {
  return v1::max_pooling2d(x, layer.pool_size, layer.strides.value_or(layer.pool_size),
                           {.padding = layer.padding, .name = name});
}

at::Tensor apply(const AveragePooling2D& layer, const std::string& name, const at::Tensor& x,
                 Mode) {
  return v1::average_pooling2d(x, layer.pool_size, layer.strides.value_or(layer.pool_size),
                               {.padding = layer.padding, .name = name});
}

at::Tensor apply(const Flatten&, const std::string& name, const at::Tensor& x, Mode) {
  return v1::flatten(x, name);
}

at::Tensor apply(const Dropout& layer, const std::string& name, const at::Tensor& x, Mode mode) {
  return v1::dropout(x, {.rate = layer.rate, .mode = mode, .name = name});
}

at::Tensor apply(const BatchNormalization& layer, const std::string& name, const at::Tensor& x,
                 Mode mode) {
  return v1::batch_normalization(x, {.momentum = layer.momentum,
                                     .epsilon = layer.epsilon,
                                     .center = layer.center,
                                     .scale = layer.scale,
                                     .mode = mode,
                                     .name = name});
}

at::Tensor apply(const Activation& layer, const std::string&, const at::Tensor& x, Mode) {
  return layer.activation.function() ? layer.activation.function()(x) : x;
}

at::Tensor apply(const ReLU&, const std::string&, const at::Tensor& x, Mode) {
  return layers::relu(x);
}

at::Tensor apply(const Softmax&, const std::string& name, const at::Tensor& x, Mode) {
  return layers::softmax(x, name);
}

bool is(const layers::Size2d& size, std::int64_t both) {
  return size.height == both && size.width == both;
}

/// Whether conv_pool_relu can compute it in chunks that fit into the cache.
bool stays_in_cache(const Conv2D& conv) {
  return conv.padding == layers::Padding::kSame && is(conv.strides, 1) &&
         is(conv.dilation_rate, 1) && conv.use_bias &&
         conv.kernel_size.height == conv.kernel_size.width && conv.kernel_size.height % 2 == 1;
}

}  // namespace

at::Tensor apply_layer(const Layer& layer, const std::string& name, const at::Tensor& inputs,
                       Mode mode) {
  return std::visit([&](const auto& any) { return apply(any, name, inputs, mode); }, layer);
}

bool are_fusible(const Layer& first, const Layer& second) {
  const auto* conv = std::get_if<Conv2D>(&first);
  const auto* pool = std::get_if<MaxPooling2D>(&second);
  return conv != nullptr && pool != nullptr && conv->activation.name() == "relu" &&
         is(pool->pool_size, 2) && is(pool->strides.value_or(pool->pool_size), 2) &&
         pool->padding == layers::Padding::kValid;
}

at::Tensor apply_fused(const Layer& first, const std::string& name, const at::Tensor& inputs) {
  const auto& conv = std::get<Conv2D>(first);
  const v1::Conv2dOptions options = options_of(conv, name);
  if (!stays_in_cache(conv)) {
    return layers::max_pool2x2_relu(v1::conv2d(inputs, conv.filters, conv.kernel_size, options));
  }
  const layers::OpenLayer opened(options.name, "conv2d", options.reuse);
  const at::Tensor x = opened.place("Conv2D", inputs);
  const at::Tensor kernel = v1::get_kernel(
      {conv.filters, x.size(1), conv.kernel_size.height, conv.kernel_size.width}, x, options);
  return layers::conv_pool_relu(x, kernel, v1::get_bias(conv.filters, x, options));
}

}  // namespace brigade::models

#include "brigade/models/keras/keras_forward.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/fused_pooling.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/v1/tf_layers.h"

namespace brigade::models {
namespace {

namespace v1 = layers::v1;

at::Tensor apply(const Dense& layer, const at::Tensor& x, const ForwardPass&) {
  return v1::dense(x, layer.units,
                   {.activation = layer.activation.function(),
                    .use_bias = layer.use_bias,
                    .kernel_initializer = layer.kernel_initializer,
                    .bias_initializer = layer.bias_initializer,
                    .kernel_regularizer = layer.kernel_regularizer,
                    .bias_regularizer = layer.bias_regularizer,
                    .name = layer.name});
}

v1::Conv2dOptions options_of(const Conv2D& layer) {
  return {.strides = layer.strides,
          .padding = layer.padding,
          .dilation_rate = layer.dilation_rate,
          .groups = layer.groups,
          .use_bias = layer.use_bias,
          .kernel_initializer = layer.kernel_initializer,
          .bias_initializer = layer.bias_initializer,
          .kernel_regularizer = layer.kernel_regularizer,
          .bias_regularizer = layer.bias_regularizer,
          .name = layer.name};
}

at::Tensor apply(const Conv2D& layer, const at::Tensor& x, const ForwardPass& pass) {
  v1::Conv2dOptions options = options_of(layer);
  options.memory_format = pass.memory_format;
  options.activation = layer.activation.function();
  return v1::conv2d(x, layer.filters, layer.kernel_size, options);
}

at::Tensor apply(const MaxPooling2D& layer, const at::Tensor& x, const ForwardPass&) {
  return v1::max_pooling2d(x, layer.pool_size, layer.strides.value_or(layer.pool_size),
                           {.padding = layer.padding, .name = layer.name});
}

at::Tensor apply(const AveragePooling2D& layer, const at::Tensor& x, const ForwardPass&) {
  return v1::average_pooling2d(x, layer.pool_size, layer.strides.value_or(layer.pool_size),
                               {.padding = layer.padding, .name = layer.name});
}

/// Applies `pool` over all positions of images.
template <class Pool>
at::Tensor pooled_globally(const char* operation, const std::string& name, const at::Tensor& x,
                           const Pool& pool) {
  check_argument(x.dim() == 4, "Layer ", name, ": its input has shape ", x.sizes(),
                 " and must be images [N, channels, height, width].");
  const layers::OpenOperation opened(name, operation);
  return pool(opened.place(operation, x));
}

at::Tensor apply(const GlobalAveragePooling2D& layer, const at::Tensor& x, const ForwardPass&) {
  return pooled_globally("Mean", layer.name, x, [&](const at::Tensor& images) {
    return images.mean({2, 3}, layer.keepdims);
  });
}

at::Tensor apply(const GlobalMaxPooling2D& layer, const at::Tensor& x, const ForwardPass&) {
  return pooled_globally("Max", layer.name, x, [&](const at::Tensor& images) {
    return images.amax({2, 3}, layer.keepdims);
  });
}

at::Tensor apply(const Flatten& layer, const at::Tensor& x, const ForwardPass&) {
  return v1::flatten(x, layer.name);
}

at::Tensor apply(const Dropout& layer, const at::Tensor& x, const ForwardPass& pass) {
  return v1::dropout(x, {.rate = layer.rate, .mode = pass.mode, .name = layer.name});
}

at::Tensor apply(const BatchNormalization& layer, const at::Tensor& x, const ForwardPass& pass) {
  return v1::batch_normalization(x, {.momentum = layer.momentum,
                                     .epsilon = layer.epsilon,
                                     .center = layer.center,
                                     .scale = layer.scale,
                                     .mode = pass.mode,
                                     .name = layer.name});
}

at::Tensor apply(const Activation& layer, const at::Tensor& x, const ForwardPass&) {
  return layer.activation.function() ? layer.activation.function()(x) : x;
}

at::Tensor apply(const ReLU&, const at::Tensor& x, const ForwardPass&) {
  return layers::relu(x);
}

at::Tensor apply(const Softmax& layer, const at::Tensor& x, const ForwardPass&) {
  return layers::softmax(x, layer.name);
}

bool is(const layers::Size2d& size, std::int64_t both) {
  return size.height == both && size.width == both;
}

/// Whether conv_pool_relu can compute it in chunks that fit into the cache.
bool stays_in_cache(const Conv2D& conv) {
  return conv.padding == layers::Padding::kSame && is(conv.strides, 1) &&
         is(conv.dilation_rate, 1) && conv.groups == 1 && conv.use_bias &&
         conv.kernel_size.height == conv.kernel_size.width && conv.kernel_size.height % 2 == 1;
}

/// Whether the two layers can be fused: a convolution with relu, followed by 2x2 pooling.
bool are_fusible(const Layer& first, const Layer& second) {
  const auto* conv = std::get_if<Conv2D>(&first);
  const auto* pool = std::get_if<MaxPooling2D>(&second);
  return conv != nullptr && pool != nullptr && conv->activation.name() == "relu" &&
         is(pool->pool_size, 2) && is(pool->strides.value_or(pool->pool_size), 2) &&
         pool->padding == layers::Padding::kValid;
}

/// Applies `first` and the pooling after it, fused.
at::Tensor apply_fused(const Layer& first, const at::Tensor& inputs) {
  const auto& conv = std::get<Conv2D>(first);
  const v1::Conv2dOptions options = options_of(conv);
  if (!stays_in_cache(conv)) {
    return layers::max_pool2x2_relu(v1::conv2d(inputs, conv.filters, conv.kernel_size, options));
  }
  const layers::OpenLayer opened(options.name, "conv2d", options.reuse);
  const at::Tensor x = opened.place("Conv2D", inputs);
  const at::Tensor kernel = v1::get_kernel(
      {conv.filters, x.size(1), conv.kernel_size.height, conv.kernel_size.width}, x, options);
  return layers::conv_pool_relu(x, kernel, v1::get_bias(conv.filters, x, options));
}

at::Tensor apply(const Residual& residual, const at::Tensor& x, const ForwardPass& pass) {
  const at::Tensor main = apply_layers(residual.layers, x, pass);
  const at::Tensor shortcut = apply_layers(residual.shortcut, x, pass);
  const layers::OpenOperation opened(residual.name, "add");
  const at::Tensor sum = opened.place("AddV2", main) + shortcut.to(main.device());
  return layers::activate(residual.activation.function(), sum);
}

at::Tensor apply(const Branches& layer, const at::Tensor& x, const ForwardPass& pass) {
  std::vector<at::Tensor> results;
  for (const auto& branch : layer.branches) {
    const at::Tensor result = apply_layers(branch, x, pass);
    results.push_back(results.empty() ? result : result.to(results[0].device()));
  }
  const layers::OpenOperation opened(layer.name, "concatenate");
  results[0] = opened.place("ConcatV2", results[0]);
  return at::cat(results, layer.axis);
}

/// Throws if the results of the sequences inside of `layer` cannot be combined, which libtorch
/// might do by broadcasting.
void check_paths(const Layer& layer, const at::Tensor& x) {
  bool has_paths = false;
  for_each_path(layer, [&](const auto&) { has_paths = true; });
  if (has_paths) output_shape(layer, given_name(layer), example_shape(x));
}

bool is_end_point(const Layer& layer, const ForwardPass& pass) {
  return std::ranges::find(pass.end_points, given_name(layer)) != pass.end_points.end();
}

void add_end_point(const std::string& name, const at::Tensor& value) {
  layers::EndPoints point;
  point.set(name, value);
  layers::add_end_points("Sequential", point, {&name, 1});
}

}  // namespace

std::size_t layers_in_step(std::span<const Layer> layers, const ForwardPass& pass) {
  const bool is_fused = !pass.memory_format && layers.size() > 1 &&
                        are_fusible(layers[0], layers[1]) && !is_end_point(layers[0], pass);
  return is_fused ? 2 : 1;
}

at::Tensor apply_layers(std::span<const Layer> layers, const at::Tensor& inputs,
                        const ForwardPass& pass) {
  at::Tensor x = inputs;
  while (!layers.empty()) {
    const std::size_t taken = layers_in_step(layers, pass);
    x = comm::begin_layer(given_name(layers[0]), x);
    if (taken == 2) {
      x = apply_fused(layers[0], x);
    } else {
      check_paths(layers[0], x);
      x = std::visit([&](const auto& any) { return apply(any, x, pass); }, layers[0]);
    }
    if (const Layer& last = layers[taken - 1]; is_end_point(last, pass))
      add_end_point(given_name(last), x);
    layers = layers.subspan(taken);
  }
  return x;
}

}  // namespace brigade::models

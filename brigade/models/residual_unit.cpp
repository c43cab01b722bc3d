#include "brigade/models/residual_unit.h"

#include <ATen/ops/constant_pad_nd.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/normalization.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::models {
namespace {

layers::BatchNormOptions batch_norm_options(const ResidualConvolution& convolution,
                                            const ResidualStyle& style) {
  return {.decay = style.batch_norm_decay,
          .center = true,
          .scale = true,
          .epsilon = style.batch_norm_epsilon,
          .gamma_initializer = convolution.zero_init ? variables::zeros_initializer()
                                                     : variables::ones_initializer(),
          .mode = style.mode};
}

layers::Conv2dOptions convolution_options(const ResidualConvolution& convolution,
                                          const ResidualStyle& style) {
  return {.stride = convolution.stride,
          .padding = layers::Padding::kSymmetric,
          .rate = convolution.rate,
          .groups = convolution.groups,
          .weights_initializer = style.weights_initializer,
          .biases_initializer = variables::zeros_initializer(),
          .scope = convolution.scope};
}

/// Every second row and column (with stride 2), and channels of zeros after the others.
at::Tensor zero_padded(const at::Tensor& inputs, const ResidualUnit& unit) {
  constexpr auto kEnd = std::numeric_limits<std::int64_t>::max();
  const at::Tensor rows = inputs.slice(2, 0, kEnd, unit.stride).slice(3, 0, kEnd, unit.stride);
  const std::array<std::int64_t, 6> margins = {0, 0, 0, 0, 0, unit.channels - inputs.size(1)};
  return at::constant_pad_nd(rows, margins);
}

at::Tensor shortcut(const at::Tensor& inputs, const ResidualUnit& unit,
                    const ResidualStyle& style) {
  if (unit.stride == 1 && inputs.size(1) == unit.channels) return inputs;
  if (style.shortcut == Shortcut::kZeroPadding) return zero_padded(inputs, unit);
  return residual_convolution(
      inputs,
      {.channels = unit.channels, .stride = unit.stride, .has_relu = false, .scope = "shortcut"},
      style);
}

/// The end of a unit. The sum is fresh, so relu overwrites it.
at::Tensor joined(const at::Tensor& residual, const at::Tensor& inputs, const ResidualUnit& unit,
                  const ResidualStyle& style) {
  return layers::activate(layers::relu,
                          residual + shortcut(inputs, unit, style).to(residual.device()));
}

}  // namespace

at::Tensor residual_convolution(const at::Tensor& inputs, const ResidualConvolution& convolution,
                                const ResidualStyle& style) {
  layers::BatchNormOptions normalization = batch_norm_options(convolution, style);
  layers::Conv2dOptions options = convolution_options(convolution, style);
  const layers::Activation activation =
      convolution.has_relu ? layers::Activation(layers::relu) : nullptr;
  if (!style.use_bias) {
    options.activation = activation;
    options.normalizer = layers::batch_normalizer(std::move(normalization));
    return layers::conv2d(inputs, convolution.channels, convolution.kernel, options);
  }
  // A layer with a normalizer has no biases, so here the two are separate layers.
  options.activation = nullptr;
  options.normalizer = nullptr;
  normalization.activation = activation;
  normalization.scope = convolution.scope + "/BatchNorm";
  return layers::batch_norm(
      layers::conv2d(inputs, convolution.channels, convolution.kernel, options), normalization);
}

at::Tensor basic_unit(const at::Tensor& inputs, const ResidualUnit& unit,
                      const ResidualStyle& style) {
  const auto scope = variables::variable_scope(unit.scope);
  const at::Tensor first = residual_convolution(inputs,
                                                {.channels = unit.channels,
                                                 .kernel = 3,
                                                 .stride = unit.stride,
                                                 .rate = unit.rate_before,
                                                 .scope = "conv1"},
                                                style);
  const at::Tensor second = residual_convolution(first,
                                                 {.channels = unit.channels,
                                                  .kernel = 3,
                                                  .rate = unit.rate,
                                                  .has_relu = false,
                                                  .zero_init = style.zero_init_residual,
                                                  .scope = "conv2"},
                                                 style);
  return joined(second, inputs, unit, style);
}

at::Tensor bottleneck_unit(const at::Tensor& inputs, const ResidualUnit& unit,
                           const ResidualStyle& style) {
  const auto scope = variables::variable_scope(unit.scope);
  const bool is_first = style.first_has_stride;
  const at::Tensor narrow = residual_convolution(
      inputs, {.channels = unit.width, .stride = is_first ? unit.stride : 1, .scope = "conv1"},
      style);
  const at::Tensor middle = residual_convolution(narrow,
                                                 {.channels = unit.width,
                                                  .kernel = 3,
                                                  .stride = is_first ? 1 : unit.stride,
                                                  .rate = is_first ? unit.rate : unit.rate_before,
                                                  .groups = unit.groups,
                                                  .scope = "conv2"},
                                                 style);
  const at::Tensor wide = residual_convolution(middle,
                                               {.channels = unit.channels,
                                                .has_relu = false,
                                                .zero_init = style.zero_init_residual,
                                                .scope = "conv3"},
                                               style);
  return joined(wide, inputs, unit, style);
}

at::Tensor residual_classifier(const at::Tensor& features, std::int64_t num_classes,
                               const ResidualStyle& style) {
  const bool is_given = static_cast<bool>(style.classifier_initializer);
  const double limit = 1.0 / std::sqrt(static_cast<double>(features.size(-1)));
  const auto uniform = variables::random_uniform_initializer(-limit, limit);
  return layers::fully_connected(
      features, num_classes,
      {.activation = nullptr,
       .normalizer = nullptr,
       .weights_initializer = is_given ? style.classifier_initializer : uniform,
       .biases_initializer = is_given ? variables::zeros_initializer() : uniform,
       .scope = "logits"});
}

}  // namespace brigade::models

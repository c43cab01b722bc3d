#include "brigade/models/keras/sequential.h"

#include <algorithm>
#include <set>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/fused_pooling.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/recompute.h"
#include "brigade/layers/v1/tf_layers.h"

namespace brigade::models {
namespace {

std::string made_unique(const std::string& name, const std::set<std::string>& taken) {
  if (!taken.contains(name)) return name;
  for (int number = 1;; ++number) {
    std::string candidate = base::str_cat(name, "_", number);
    if (!taken.contains(candidate)) return candidate;
  }
}

std::vector<std::string> named(const std::vector<Layer>& layers) {
  std::set<std::string> taken;
  for (const Layer& layer : layers) {
    const std::string& name = given_name(layer);
    check_argument(name.empty() || taken.insert(name).second,
                   base::str_cat("Two layers are called '", name, "': names must be unique."));
  }
  std::vector<std::string> names;
  for (const Layer& layer : layers) {
    const std::string& given = given_name(layer);
    names.push_back(given.empty() ? made_unique(std::string(default_name(layer)), taken) : given);
    taken.insert(names.back());
  }
  return names;
}

struct SummaryRow {
  std::string layer, shape, parameters;
};

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string table(const std::vector<SummaryRow>& rows) {
  std::size_t first = 26, second = 24;
  for (const SummaryRow& row : rows) {
    first = std::max(first, row.layer.size() + 2);
    second = std::max(second, row.shape.size() + 2);
  }
  const std::size_t width = first + second + 12;
  std::string text = std::string(width, '_') + "\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += base::str_cat(" ", padded(rows[i].layer, first), padded(rows[i].shape, second),
                          rows[i].parameters, "\n");
    if (i == 0) text += std::string(width, '=') + "\n";
  }
  return text + std::string(width, '=') + "\n";
}

namespace v1 = layers::v1;
using variables::Mode;

/// What layers get besides their inputs.
struct Pass {
  Mode mode;
  std::optional<at::MemoryFormat> memory_format;
};

at::Tensor apply(const Dense& layer, const std::string& name, const at::Tensor& x, const Pass&) {
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

at::Tensor apply(const Conv2D& layer, const std::string& name, const at::Tensor& x,
                 const Pass& pass) {
  v1::Conv2dOptions options = options_of(layer, name);
  options.memory_format = pass.memory_format;
  options.activation = layer.activation.function();
  return v1::conv2d(x, layer.filters, layer.kernel_size, options);
}

at::Tensor apply(const MaxPooling2D& layer, const std::string& name, const at::Tensor& x,
                 const Pass&) {
  return v1::max_pooling2d(x, layer.pool_size, layer.strides.value_or(layer.pool_size),
                           {.padding = layer.padding, .name = name});
}

at::Tensor apply(const AveragePooling2D& layer, const std::string& name, const at::Tensor& x,
                 const Pass&) {
  return v1::average_pooling2d(x, layer.pool_size, layer.strides.value_or(layer.pool_size),
                               {.padding = layer.padding, .name = name});
}

at::Tensor apply(const Flatten&, const std::string& name, const at::Tensor& x, const Pass&) {
  return v1::flatten(x, name);
}

at::Tensor apply(const Dropout& layer, const std::string& name, const at::Tensor& x,
                 const Pass& pass) {
  return v1::dropout(x, {.rate = layer.rate, .mode = pass.mode, .name = name});
}

at::Tensor apply(const BatchNormalization& layer, const std::string& name, const at::Tensor& x,
                 const Pass& pass) {
  return v1::batch_normalization(x, {.momentum = layer.momentum,
                                     .epsilon = layer.epsilon,
                                     .center = layer.center,
                                     .scale = layer.scale,
                                     .mode = pass.mode,
                                     .name = name});
}

at::Tensor apply(const Activation& layer, const std::string&, const at::Tensor& x, const Pass&) {
  return layer.activation.function() ? layer.activation.function()(x) : x;
}

at::Tensor apply(const ReLU&, const std::string&, const at::Tensor& x, const Pass&) {
  return layers::relu(x);
}

at::Tensor apply(const Softmax&, const std::string& name, const at::Tensor& x, const Pass&) {
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

/// Whether the two layers can be fused: a convolution with relu, followed by 2x2 pooling.
bool are_fusible(const Layer& first, const Layer& second) {
  const auto* conv = std::get_if<Conv2D>(&first);
  const auto* pool = std::get_if<MaxPooling2D>(&second);
  return conv != nullptr && pool != nullptr && conv->activation.name() == "relu" &&
         is(pool->pool_size, 2) && is(pool->strides.value_or(pool->pool_size), 2) &&
         pool->padding == layers::Padding::kValid;
}

/// Applies `first`, whose name is `name`, and the pooling after it, fused.
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

}  // namespace

Sequential::Sequential(std::vector<Layer> layers, SequentialOptions options)
    : options_(std::move(options)) {
  check_argument(!layers.empty(), "A Sequential needs at least one layer.");
  check_argument(options_.recompute_every >= 0,
                 base::str_cat(options_.name, ": recompute_every is ", options_.recompute_every,
                               "; expected 0 (nothing is recomputed) or more."));
  std::vector<std::string> names = named(layers);
  stack_ =
      std::make_shared<const Stack>(Stack{.layers = std::move(layers), .names = std::move(names)});
  if (options_.input_shape) output_shape(*options_.input_shape);
}

at::Tensor Sequential::operator()(const at::Tensor& inputs, variables::Mode mode) const {
  check_argument(inputs.defined() && inputs.is_floating_point(),
                 base::str_cat(options_.name,
                               ": the inputs must be a floating-point tensor; convert images "
                               "of bytes first (x.to(at::kFloat) / 255)."));
  const ExampleShape shape(inputs.sizes().begin() + std::min<std::int64_t>(1, inputs.dim()),
                           inputs.sizes().end());
  check_argument(!options_.input_shape || shape == *options_.input_shape,
                 base::str_cat(options_.name, ": the inputs are ", shape_text(shape),
                               ", but its input_shape says ",
                               shape_text(options_.input_shape.value_or(shape)), "."));
  const std::size_t count = layers().size();
  if (options_.recompute_every == 0) return stack_->apply(0, count, inputs, mode);
  at::Tensor x = inputs;
  for (std::size_t begin = 0; begin < count;) {
    const std::size_t end = stack_->end_of_group(begin, options_.recompute_every);
    if (end == count) return stack_->apply(begin, end, x, mode);
    x = layers::recompute([stack = stack_, begin, end, mode](
                              const at::Tensor& in) { return stack->apply(begin, end, in, mode); },
                          x);
    begin = end;
  }
  return x;
}

/// The layer after `layer`, or after the one that is fused with it.
std::size_t Sequential::Stack::end_of_step(std::size_t layer) const {
  const bool is_fused =
      !memory_format && layer + 1 < layers.size() && are_fusible(layers[layer], layers[layer + 1]);
  return layer + (is_fused ? 2 : 1);
}

std::size_t Sequential::Stack::end_of_group(std::size_t begin, int num_layers) const {
  std::size_t end = begin;
  while (end < layers.size() && end < begin + static_cast<std::size_t>(num_layers))
    end = end_of_step(end);
  return end;
}

at::Tensor Sequential::Stack::apply(std::size_t begin, std::size_t end, const at::Tensor& inputs,
                                    variables::Mode mode) const {
  at::Tensor x = inputs;
  const Pass pass{.mode = mode, .memory_format = memory_format};
  for (std::size_t i = begin; i < end; i = end_of_step(i)) {
    x = end_of_step(i) == i + 1
            ? std::visit([&](const auto& any) { return models::apply(any, names[i], x, pass); },
                         layers[i])
            : apply_fused(layers[i], names[i], x);
  }
  return x;
}

Sequential Sequential::recompute_every(int num_layers) const {
  SequentialOptions options = options_;
  options.recompute_every = num_layers;
  return Sequential(layers(), std::move(options));
}

ExampleShape Sequential::output_shape(const ExampleShape& input) const {
  ExampleShape shape = input;
  for (std::size_t i = 0; i < layers().size(); ++i)
    shape = models::output_shape(layers()[i], names()[i], shape);
  return shape;
}

std::string Sequential::summary(const std::optional<ExampleShape>& input_shape) const {
  const auto& known = input_shape ? input_shape : options_.input_shape;
  check_state(
      known.has_value(),
      base::str_cat(options_.name,
                    ": the shapes are not known yet. Set input_shape, or train the model."));
  ExampleShape shape = *known;
  ParameterCount sum;
  std::vector<SummaryRow> rows = {{"Layer (type)", "Output Shape", "Param #"}};
  for (std::size_t i = 0; i < layers().size(); ++i) {
    ExampleShape next = models::output_shape(layers()[i], names()[i], shape);
    const ParameterCount count = parameter_count(layers()[i], shape);
    rows.push_back({base::str_cat(names()[i], " (", type_name(layers()[i]), ")"), shape_text(next),
                    base::str_cat(count.trainable + count.other)});
    sum.trainable += count.trainable;
    sum.other += count.other;
    shape = std::move(next);
  }
  return base::str_cat(
      "Model: \"", options_.name, "\"\n", table(rows), "Total params: ", sum.trainable + sum.other,
      "\nTrainable params: ", sum.trainable, "\nNon-trainable params: ", sum.other, "\n");
}

}  // namespace brigade::models

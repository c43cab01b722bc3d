#include "brigade/models/keras/keras_layers.h"

#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/relu6.h>
#include <ATen/ops/selu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"

namespace brigade::models {
namespace {

using Function = at::Tensor (*)(const at::Tensor&);

struct ActivationRow {
  std::string_view name;
  Function function;
};

constexpr double kKerasLeakySlope = 0.2;

const auto kActivations = std::to_array<ActivationRow>({
    {"elu", [](const at::Tensor& x) { return at::elu(x); }},
    {"gelu", [](const at::Tensor& x) { return at::gelu(x); }},
    {"leaky_relu", [](const at::Tensor& x) { return at::leaky_relu(x, kKerasLeakySlope); }},
    {"linear", nullptr},
    {"log_softmax", [](const at::Tensor& x) { return at::log_softmax(x, -1); }},
    {"relu", layers::relu},
    {"relu6", [](const at::Tensor& x) { return at::relu6(x); }},
    {"selu", [](const at::Tensor& x) { return at::selu(x); }},
    {"sigmoid", [](const at::Tensor& x) { return at::sigmoid(x); }},
    {"silu", [](const at::Tensor& x) { return at::silu(x); }},
    {"softmax", [](const at::Tensor& x) { return at::softmax(x, -1); }},
    {"softplus", [](const at::Tensor& x) { return at::softplus(x); }},
    {"swish", [](const at::Tensor& x) { return at::silu(x); }},
    {"tanh", [](const at::Tensor& x) { return at::tanh(x); }},
});

using layers::Size2d;

struct LayerName {
  std::string_view type, name;
};

/// [index in `Layer`]
constexpr auto kLayerNames =
    std::to_array<LayerName>({{"Dense", "dense"},
                              {"Conv2D", "conv2d"},
                              {"MaxPooling2D", "max_pooling2d"},
                              {"AveragePooling2D", "average_pooling2d"},
                              {"GlobalAveragePooling2D", "global_average_pooling2d"},
                              {"GlobalMaxPooling2D", "global_max_pooling2d"},
                              {"Flatten", "flatten"},
                              {"Dropout", "dropout"},
                              {"BatchNormalization", "batch_normalization"},
                              {"Activation", "activation"},
                              {"ReLU", "re_lu"},
                              {"Softmax", "softmax"},
                              {"Add", "add"},
                              {"Concatenate", "concatenate"}});
static_assert(kLayerNames.size() == std::variant_size_v<Layer::variant>);

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

std::int64_t product(const ExampleShape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void check(bool holds, const std::string& name, const std::string& text) {
  if (!holds) refuse("Layer ", name, ": ", text);
}

void check_positive(const std::string& name, std::string_view field, std::int64_t value) {
  check(value > 0, name, base::str_cat(field, " is ", value, " and must be at least 1."));
}

void check_images(const std::string& name, const ExampleShape& input) {
  check(input.size() == 3, name,
        base::str_cat("its input is ", shape_text(input),
                      " and must be images [N, channels, height, width]."));
}

ExampleShape windowed(const std::string& name, const ExampleShape& input, std::int64_t channels,
                      const layers::SlidingWindow& window) {
  check_images(name, input);
  for (const auto& [field, size] :
       {std::pair("the window", window.size), std::pair("strides", window.stride),
        std::pair("dilation_rate", window.rate)}) {
    check_positive(name, field, size.height);
    check_positive(name, field, size.width);
  }
  const Size2d size = layers::output_size(window, input[1], input[2]);
  check(size.height > 0 && size.width > 0, name,
        base::str_cat("its window of ", window.size.height, "x", window.size.width,
                      " does not fit into its input ", shape_text(input),
                      ": use fewer layers, or padding kSame."));
  return {channels, size.height, size.width};
}

template <class Pool>
ExampleShape pooled(const Pool& pool, const std::string& name, const ExampleShape& input) {
  return windowed(name, input, input.empty() ? 0 : input[0],
                  {.size = pool.pool_size,
                   .stride = pool.strides.value_or(pool.pool_size),
                   .padding = pool.padding});
}

ExampleShape convolved(const Conv2D& conv, const std::string& name, const ExampleShape& input) {
  check_positive(name, "filters", conv.filters);
  check_positive(name, "groups", conv.groups);
  ExampleShape result = windowed(name, input, conv.filters,
                                 {.size = conv.kernel_size,
                                  .stride = conv.strides,
                                  .rate = conv.dilation_rate,
                                  .padding = conv.padding});
  check(
      input[0] % conv.groups == 0 && conv.filters % conv.groups == 0, name,
      base::str_cat("groups is ", conv.groups, " and must divide both the channels of its input, ",
                    input[0], ", and filters, ", conv.filters, "."));
  return result;
}

template <class GlobalPool>
ExampleShape globally_pooled(const GlobalPool& pool, const std::string& name,
                             const ExampleShape& input) {
  check_images(name, input);
  return pool.keepdims ? ExampleShape{input[0], 1, 1} : ExampleShape{input[0]};
}

ExampleShape dense(const Dense& layer, const std::string& name, ExampleShape shape) {
  check_positive(name, "units", layer.units);
  check(!shape.empty(), name, "its input has only the batch dimension.");
  shape.back() = layer.units;
  return shape;
}

ExampleShape added(const Residual& residual, const std::string& name, const ExampleShape& input) {
  check(!residual.layers.empty(), name, "it has no layers.");
  ExampleShape result = output_shape(residual.layers, input);
  const ExampleShape shortcut = output_shape(residual.shortcut, input);
  check(result == shortcut, name,
        base::str_cat("its layers give ", shape_text(result), " and its shortcut ",
                      shape_text(shortcut),
                      ": a sum needs equal shapes. A Conv2D in the shortcut changes its channels, "
                      "and with strides its size."));
  return result;
}

/// Whether the shapes are equal but for the dimension `at`.
bool are_alike(ExampleShape a, ExampleShape b, std::size_t at) {
  if (a.size() != b.size()) return false;
  a[at] = b[at] = 0;
  return a == b;
}

ExampleShape concatenated(const Branches& layer, const std::string& name,
                          const ExampleShape& input) {
  check(!layer.branches.empty(), name, "it has no branches.");
  ExampleShape result = output_shape(layer.branches[0], input);
  const auto dimensions = static_cast<std::int64_t>(result.size());
  check(layer.axis >= 1 && layer.axis <= dimensions, name,
        base::str_cat("axis is ", layer.axis, "; the results of its branches, ", shape_text(result),
                      ", have the axes 1 to ", dimensions, " besides the examples'."));
  const auto axis = static_cast<std::size_t>(layer.axis - 1);
  for (std::size_t i = 1; i < layer.branches.size(); ++i) {
    const ExampleShape other = output_shape(layer.branches[i], input);
    check(are_alike(result, other, axis), name,
          base::str_cat("branch 0 gives ", shape_text(result), " and branch ", i, " ",
                        shape_text(other), ": they must be equal but for axis ", layer.axis, "."));
    result[axis] += other[axis];
  }
  return result;
}

template <class Weighted>
std::int64_t biases(const Weighted& layer, std::int64_t outputs) {
  return layer.use_bias ? outputs : 0;
}

}  // namespace

NamedActivation::NamedActivation(const std::string& name) : name_(name) {
  for (const ActivationRow& row : kActivations) {
    if (row.name != name) continue;
    if (row.function != nullptr) function_ = row.function;
    return;
  }
  throw base::unknown_name("activation", name, "Activations", activation_names());
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const ActivationRow& row : kActivations) names.emplace_back(row.name);
  return names;
}

std::string_view type_name(const Layer& layer) {
  return kLayerNames[layer.index()].type;
}

std::string_view default_name(const Layer& layer) {
  return kLayerNames[layer.index()].name;
}

const std::string& given_name(const Layer& layer) {
  return std::visit([](const auto& any) -> const std::string& { return any.name; }, layer);
}

void set_name(Layer& layer, std::string name) {
  std::visit([&](auto& any) { any.name = std::move(name); }, layer);
}

ExampleShape output_shape(const Layer& layer, const std::string& name, const ExampleShape& input) {
  return std::visit(
      Overloaded{
          [&](const Dense& any) { return dense(any, name, input); },
          [&](const Conv2D& conv) { return convolved(conv, name, input); },
          [&](const MaxPooling2D& pool) { return pooled(pool, name, input); },
          [&](const AveragePooling2D& pool) { return pooled(pool, name, input); },
          [&](const GlobalAveragePooling2D& pool) { return globally_pooled(pool, name, input); },
          [&](const GlobalMaxPooling2D& pool) { return globally_pooled(pool, name, input); },
          [&](const Flatten&) { return ExampleShape{product(input)}; },
          [&](const Dropout& dropout) {
            check(dropout.rate >= 0.0 && dropout.rate < 1.0, name,
                  base::str_cat("rate is ", dropout.rate, " and must lie in [0, 1)."));
            return input;
          },
          [&](const BatchNormalization&) {
            check(!input.empty(), name, "its input has only the batch dimension.");
            return input;
          },
          [&](const Residual& residual) { return added(residual, name, input); },
          [&](const Branches& branches) { return concatenated(branches, name, input); },
          [&](const auto&) { return input; }},
      layer);
}

ExampleShape example_shape(const at::Tensor& batch) {
  const auto sizes = batch.sizes();
  return {sizes.begin() + std::min<std::int64_t>(1, batch.dim()), sizes.end()};
}

ParameterCount parameter_count(const Layer& layer, const ExampleShape& input) {
  ParameterCount inside;
  for_each_path(layer, [&](const std::vector<Layer>& path) {
    const ParameterCount count = parameter_count(path, input);
    inside.trainable += count.trainable;
    inside.other += count.other;
  });
  return std::visit(
      Overloaded{[&](const Dense& any) {
                   return ParameterCount{.trainable =
                                             input.back() * any.units + biases(any, any.units)};
                 },
                 [&](const Conv2D& conv) {
                   return ParameterCount{.trainable = conv.filters * (input[0] / conv.groups) *
                                                          conv.kernel_size.height *
                                                          conv.kernel_size.width +
                                                      biases(conv, conv.filters)};
                 },
                 [&](const BatchNormalization& norm) {
                   const std::int64_t vectors = (norm.center ? 1 : 0) + (norm.scale ? 1 : 0);
                   return ParameterCount{.trainable = vectors * input[0], .other = 2 * input[0]};
                 },
                 [&](const auto&) { return inside; }},
      layer);
}

std::int64_t flops(const Layer& layer, const ExampleShape& input) {
  std::int64_t inside = 0;
  for_each_path(layer, [&](const std::vector<Layer>& path) { inside += flops(path, input); });
  if (const auto* any = std::get_if<Dense>(&layer)) return 2 * product(input) * any->units;
  if (const auto* conv = std::get_if<Conv2D>(&layer)) {
    const std::int64_t window = conv->kernel_size.height * conv->kernel_size.width;
    const ExampleShape output = output_shape(layer, conv->name, input);
    return 2 * product(output) * window * (input[0] / conv->groups);
  }
  return inside;
}

namespace {

/// Calls `visit` with each layer and the shape of its input, and returns the shape of the result.
template <class Visit>
ExampleShape shape_after(const std::vector<Layer>& layers, ExampleShape shape, const Visit& visit) {
  for (const Layer& layer : layers) {
    visit(layer, shape);
    shape = output_shape(layer, given_name(layer), shape);
  }
  return shape;
}

}  // namespace

ExampleShape output_shape(const std::vector<Layer>& layers, ExampleShape input) {
  return shape_after(layers, std::move(input), [](const Layer&, const ExampleShape&) {});
}

ParameterCount parameter_count(const std::vector<Layer>& layers, ExampleShape input) {
  ParameterCount sum;
  shape_after(layers, std::move(input), [&](const Layer& layer, const ExampleShape& shape) {
    const ParameterCount count = parameter_count(layer, shape);
    sum.trainable += count.trainable;
    sum.other += count.other;
  });
  return sum;
}

std::int64_t flops(const std::vector<Layer>& layers, ExampleShape input) {
  std::int64_t sum = 0;
  shape_after(layers, std::move(input),
              [&](const Layer& layer, const ExampleShape& shape) { sum += flops(layer, shape); });
  return sum;
}

std::string shape_text(const ExampleShape& shape) {
  std::string text = "(None";
  for (const std::int64_t size : shape) text += base::str_cat(", ", size);
  return text + ")";
}

}  // namespace brigade::models

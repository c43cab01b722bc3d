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
                              {"Flatten", "flatten"},
                              {"Dropout", "dropout"},
                              {"BatchNormalization", "batch_normalization"},
                              {"Activation", "activation"},
                              {"ReLU", "re_lu"},
                              {"Softmax", "softmax"}});
static_assert(kLayerNames.size() == std::variant_size_v<Layer>);

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

std::int64_t product(const ExampleShape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void check(bool holds, const std::string& name, const std::string& text) {
  if (!holds) throw Error(ErrorCode::kInvalidArgument, base::str_cat("Layer ", name, ": ", text));
}

void check_positive(const std::string& name, std::string_view field, std::int64_t value) {
  check(value > 0, name, base::str_cat(field, " is ", value, " and must be at least 1."));
}

ExampleShape windowed(const std::string& name, const ExampleShape& input, std::int64_t channels,
                      const layers::SlidingWindow& window) {
  check(input.size() == 3, name,
        base::str_cat("its input is ", shape_text(input),
                      " and must be images [N, channels, height, width]."));
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

ExampleShape dense(const Dense& layer, const std::string& name, ExampleShape shape) {
  check_positive(name, "units", layer.units);
  check(!shape.empty(), name, "its input has only the batch dimension.");
  shape.back() = layer.units;
  return shape;
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

ExampleShape output_shape(const Layer& layer, const std::string& name, const ExampleShape& input) {
  return std::visit(
      Overloaded{[&](const Dense& any) { return dense(any, name, input); },
                 [&](const Conv2D& conv) { return convolved(conv, name, input); },
                 [&](const MaxPooling2D& pool) { return pooled(pool, name, input); },
                 [&](const AveragePooling2D& pool) { return pooled(pool, name, input); },
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
                 [&](const auto&) { return input; }},
      layer);
}

ParameterCount parameter_count(const Layer& layer, const ExampleShape& input) {
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
                 [](const auto&) { return ParameterCount{}; }},
      layer);
}

std::string shape_text(const ExampleShape& shape) {
  std::string text = "(None";
  for (const std::int64_t size : shape) text += base::str_cat(", ", size);
  return text + ")";
}

}  // namespace brigade::models

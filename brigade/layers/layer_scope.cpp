#include "brigade/layers/layer_scope.h"

#include <ATen/ops/relu.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/variables/collections.h"
#include "brigade/variables/layer_value.h"

namespace brigade::layers {
namespace {

using variables::Initializer;
using variables::VariableOptions;

variables::OpenVariableScope open(const LayerScope& scope, const char* default_name,
                                  std::optional<variables::Reuse> reuse) {
  variables::VariableScopeOptions options{.reuse = reuse.value_or(variables::Reuse::kInherit)};
  if (scope.captured() != nullptr) {
    return variables::variable_scope(*scope.captured(), std::move(options));
  }
  options.default_name = default_name;
  return variables::variable_scope(scope.name(), std::move(options));
}

void collect(variables::Graph& graph, const std::vector<std::string>& collections,
             const at::Tensor& result) {
  // The name scope ends in a slash, which marks a complete name for the graph.
  for (const auto& collection : collections) {
    graph.add_to_collection(collection, graph.name_scope(), result);
  }
}

}  // namespace

at::Tensor relu(const at::Tensor& inputs) {
  return at::relu(inputs);
}

at::Tensor activate(const Activation& activation, at::Tensor fresh) {
  if (!activation) return fresh;
  using Function = at::Tensor (*)(const at::Tensor&);
  const auto* function = activation.target<Function>();
  if (function != nullptr && *function == static_cast<Function>(relu)) return at::relu_(fresh);
  return activation(fresh);
}

std::optional<std::string> LayerScope::name() const {
  if (const auto* name = std::get_if<std::string>(&value_)) return *name;
  return std::nullopt;
}

OpenLayer::OpenLayer(const LayerScope& scope, const char* default_name,
                     std::optional<variables::Reuse> reuse)
    : graph_(variables::require_graph(default_name)), scope_(open(scope, default_name, reuse)) {}

at::Tensor OpenLayer::place(const char* operation, const at::Tensor& input) const {
  return variables::place_layer(graph_.name_scope() + operation, input);
}

at::Tensor OpenLayer::collected(const std::vector<std::string>& collections,
                                at::Tensor result) const {
  collect(graph_, collections, result);
  return result;
}

OpenOperation::OpenOperation(const std::string& name, const char* default_name)
    : graph_(variables::current_graph()) {
  if (graph_ != nullptr) scope_.emplace(*graph_, name.empty() ? default_name : name);
}

at::Tensor OpenOperation::place(const char* operation, const at::Tensor& input) const {
  if (graph_ == nullptr) return input;
  return variables::place_layer(graph_->name_scope() + operation, input);
}

at::Tensor OpenOperation::collected(const std::vector<std::string>& collections,
                                    at::Tensor result) const {
  if (graph_ != nullptr) collect(*graph_, collections, result);
  return result;
}

VariableOptions model_variable(const Initializer& initializer,
                               const std::vector<std::string>& collections,
                               std::optional<bool> trainable, at::ScalarType dtype) {
  std::vector<std::string> all = {variables::kGlobalVariables, variables::kModelVariables};
  all.insert(all.end(), collections.begin(), collections.end());
  return {.dtype = dtype,
          .initializer = initializer,
          .trainable = trainable,
          .collections = std::move(all)};
}

at::Tensor get_weights(const char* name, std::vector<std::int64_t> shape, const at::Tensor& like,
                       const LayerArguments& arguments) {
  auto options = model_variable(
      arguments.weights_initializer ? *arguments.weights_initializer
                                    : variables::glorot_uniform_initializer(),
      arguments.variables_collections, arguments.trainable, device::variable_dtype(like));
  options.regularizer = arguments.weights_regularizer.value_or(nullptr);
  options.memory_format = arguments.memory_format;
  return variables::get_value(name, shape, options, like.device());
}

at::Tensor get_biases(std::int64_t outputs, const at::Tensor& like,
                      const LayerArguments& arguments) {
  if (arguments.normalizer && *arguments.normalizer) return {};
  const auto& given = arguments.biases_initializer;
  if (given && !*given) return {};
  auto options = model_variable(given ? *given : variables::zeros_initializer(),
                                arguments.variables_collections, arguments.trainable,
                                device::variable_dtype(like));
  options.regularizer = arguments.biases_regularizer.value_or(nullptr);
  return variables::get_value("biases", {{outputs}}, options, like.device());
}

at::Tensor finished(const OpenLayer& layer, const LayerArguments& arguments, at::Tensor result) {
  const Activation activation = arguments.activation.value_or(relu);
  if (arguments.normalizer && *arguments.normalizer) {
    // A normalizer may need its result for backward, so nothing may overwrite it.
    result = (*arguments.normalizer)(result);
    if (activation) result = activation(result);
  } else {
    result = activate(activation, std::move(result));
  }
  return layer.collected(arguments.outputs_collections, std::move(result));
}

void check_outputs(const char* layer, std::int64_t num_outputs) {
  if (num_outputs >= 1) return;
  refuse(layer, ": the number of outputs is ", num_outputs, "; expected 1 or more");
}

void check_groups(const char* layer, std::int64_t groups, std::int64_t channels,
                  std::int64_t num_outputs) {
  if (groups >= 1 && channels % groups == 0 && num_outputs % groups == 0) return;
  refuse(layer, ": groups is ", groups,
         "; expected a number that divides both the channels of the images, ", channels,
         ", and the number of outputs, ", num_outputs);
}

void check_dimensions(const char* layer, const at::Tensor& inputs, std::int64_t at_least) {
  if (!inputs.defined()) refuse(layer, ": inputs are an undefined tensor");
  if (inputs.dim() >= at_least) return;
  refuse(layer, ": inputs have shape ", inputs.sizes(), "; expected at least ", at_least,
         " dimensions");
}

void check_keep_prob(const char* layer, double keep_prob) {
  if (keep_prob > 0.0 && keep_prob <= 1.0) return;
  refuse(layer, ": keep_prob is ", keep_prob, "; expected more than 0, at most 1");
}

}  // namespace brigade::layers

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "brigade/layers/layer_arguments.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_scope.h"

/// Argument checks shared by layers. All throw kInvalidArgument, naming `layer`.
namespace brigade::layers {

/// The `scope` argument of layers with variables: a name ("conv1"), a captured variable scope, or
/// nothing for the layer's default name, made unique: Conv, Conv_1, ...
class LayerScope {
 public:
  LayerScope() = default;
  LayerScope(const char* name) : value_(std::string(name)) {}
  LayerScope(std::string name) : value_(std::move(name)) {}
  LayerScope(variables::VariableScope captured) : value_(std::move(captured)) {}

  const variables::VariableScope* captured() const {
    return std::get_if<variables::VariableScope>(&value_);
  }
  std::optional<std::string> name() const;

 private:
  std::variant<std::monostate, std::string, variables::VariableScope> value_;
};

/// The variable scope of a layer with variables, and helpers for such layers. For layers.
class OpenLayer {
 public:
  /// Throws as `variables::variable_scope`, and kFailedPrecondition without a graph.
  OpenLayer(const LayerScope& scope, const char* default_name,
            std::optional<variables::Reuse> reuse);

  /// The input on the layer's device; see `variables::place_layer`.
  at::Tensor place(const char* operation, const at::Tensor& input) const;
  /// Adds the result to the collections under the layer's name.
  at::Tensor collected(const std::vector<std::string>& collections, at::Tensor result) const;

 private:
  variables::Graph& graph_;
  variables::OpenVariableScope scope_;
};

/// The name scope that a layer without variables opens, if a graph is open. For layers.
class OpenOperation {
 public:
  OpenOperation(const std::string& name, const char* default_name);
  at::Tensor place(const char* operation, const at::Tensor& input) const;
  at::Tensor collected(const std::vector<std::string>& collections, at::Tensor result) const;

 private:
  variables::Graph* graph_;
  std::optional<variables::NameScope> scope_;
};

/// Options of a model variable: in the global and the model variables, and in `collections`.
variables::VariableOptions model_variable(const variables::Initializer& initializer,
                                          const std::vector<std::string>& collections,
                                          std::optional<bool> trainable, at::ScalarType dtype);

/// The weights of a layer by its options; Glorot uniform by default.
at::Tensor get_weights(const char* name, std::vector<std::int64_t> shape, const at::Tensor& like,
                       const LayerArguments& arguments);
/// The biases, or an undefined tensor if a normalizer replaces them or there are none.
at::Tensor get_biases(std::int64_t outputs, const at::Tensor& like,
                      const LayerArguments& arguments);

/// Applies the normalizer and the activation, and adds the result to collections: the end of a
/// layer.
at::Tensor finished(const OpenLayer& layer, const LayerArguments& arguments, at::Tensor result);

/// Throws unless it is 1 or more.
void check_outputs(const char* layer, std::int64_t num_outputs);

/// Throws unless `groups` is 1 or more, and divides both numbers of channels.
void check_groups(const char* layer, std::int64_t groups, std::int64_t channels,
                  std::int64_t num_outputs);

/// Throws unless `inputs` is defined and has at least this many dimensions.
void check_dimensions(const char* layer, const at::Tensor& inputs, std::int64_t at_least);

/// Throws unless `keep_prob` is in (0, 1].
void check_keep_prob(const char* layer, double keep_prob);

}  // namespace brigade::layers

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"
#include "brigade/layers/empty_braces.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

/// See `LayerArguments` for what the fields mean.
struct FullyConnectedOptions {
  std::optional<Activation> activation = std::nullopt;                       ///< default relu
  std::optional<Normalizer> normalizer = std::nullopt;                       ///< default none
  std::optional<variables::Initializer> weights_initializer = std::nullopt;  ///< Glorot uniform
  std::optional<variables::Regularizer> weights_regularizer = std::nullopt;
  std::optional<variables::Initializer> biases_initializer = std::nullopt;  ///< default zeros
  std::optional<variables::Regularizer> biases_regularizer = std::nullopt;
  std::optional<variables::Reuse> reuse = std::nullopt;
  std::vector<std::string> variables_collections = {};
  std::vector<std::string> outputs_collections = {};
  std::optional<bool> trainable = std::nullopt;
  LayerScope scope = {};  ///< default: fully_connected, fully_connected_1, ...
};

/// `inputs` [..., in] times weights, then the normalizer or biases, then the activation: [...,
/// num_outputs]. Variables: weights [num_outputs, in] (the transpose of TensorFlow's), biases
/// [num_outputs]. TensorFlow: slim.fully_connected.
///
/// Throws kInvalidArgument for inputs of fewer than two dimensions, otherwise as `conv2d`.
at::Tensor fully_connected(const at::Tensor& inputs, std::int64_t num_outputs,
                           const FullyConnectedOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<fully_connected> =
    layer_kind<FullyConnectedOptions>("fully_connected");

/// See `LayerArguments` for what the fields mean.
struct BiasAddOptions {
  std::optional<Activation> activation = std::nullopt;                      ///< default none
  std::optional<variables::Initializer> biases_initializer = std::nullopt;  ///< default zeros
  std::optional<variables::Regularizer> biases_regularizer = std::nullopt;
  std::optional<variables::Reuse> reuse = std::nullopt;
  std::vector<std::string> variables_collections = {};
  std::vector<std::string> outputs_collections = {};
  std::optional<bool> trainable = std::nullopt;
  LayerScope scope = {};  ///< default: BiasAdd, BiasAdd_1, ...
};

/// `inputs` [N, C, ...] plus the variable biases [C]. TensorFlow: slim.bias_add. Throws as
/// `conv2d`.
at::Tensor bias_add(const at::Tensor& inputs, const BiasAddOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<bias_add> = layer_kind<BiasAddOptions>("bias_add");

/// Options of `flatten`.
struct FlattenOptions {
  std::vector<std::string> outputs_collections = {};
  std::string scope = {};  ///< default: Flatten, made unique
};

/// `inputs` [N, ...] as [N, the product of the rest]; a view where it can be one. Images are laid
/// out [C, H, W] here and [H, W, C] in TensorFlow, so the order of the features differs. Also works
/// without a graph. TensorFlow: slim.flatten. Throws kInvalidArgument for fewer than two
/// dimensions.
///
/// After `using namespace brigade::slim`, or in it, write `slim::flatten(x)`: an unqualified
/// `flatten(x)` is ambiguous with libtorch's, and `flatten(x, {})` calls libtorch's, for which `{}`
/// is the first dimension, so that it flattens the examples, too.
at::Tensor flatten(const at::Tensor& inputs, const FlattenOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<flatten> = layer_kind<FlattenOptions>("flatten");

/// Options of `dropout`.
struct DropoutOptions {
  /// The probability that an element is kept; kept elements are divided by it. Default 0.5. In (0,
  /// 1].
  std::optional<double> keep_prob = std::nullopt;
  /// Default kTraining; in kEvaluation the inputs are returned unchanged.
  std::optional<variables::Mode> mode = std::nullopt;
  std::vector<std::string> outputs_collections = {};
  std::string scope = {};  ///< default: Dropout, made unique
};

/// Sets elements to zero at random; a replica uses its own generator. Also works without a graph.
/// TensorFlow: slim.dropout. Throws kInvalidArgument for a keep_prob outside of its range.
at::Tensor dropout(const at::Tensor& inputs, const DropoutOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<dropout> = layer_kind<DropoutOptions>("dropout");

/// The softmax over the last dimension of `logits`. `scope` names it in the graph, if one is open:
/// default softmax, made unique. For losses use the functions with logits, which are exact even for
/// extreme values. TensorFlow: slim.softmax. Throws kInvalidArgument for a scalar.
at::Tensor softmax(const at::Tensor& logits, const std::string& scope = "");
inline at::Tensor softmax(const at::Tensor& logits, NoOptions) {
  return softmax(logits, std::string());
}

/// `inputs` divided by their length along `dimension`: sqrt(epsilon + sum of squares). `scope`
/// names it in the graph, if one is open: default UnitNorm, made unique. TensorFlow:
/// slim.unit_norm. Throws kInvalidArgument for a dimension that the inputs do not have.
at::Tensor unit_norm(const at::Tensor& inputs, std::int64_t dimension, double epsilon = 1e-7,
                     const std::string& scope = "");

/// Options of `one_hot_encoding`.
struct OneHotOptions {
  /// The value at the label, and that at all other classes.
  double on_value = 1.0;
  double off_value = 0.0;
  std::vector<std::string> outputs_collections = {};
  std::string scope = {};  ///< default: OneHotEncoding, made unique
};

/// Class numbers `labels` of any shape and integral dtype as float32 rows [..., num_classes]:
/// `on_value` at the label, `off_value` elsewhere. A label outside of the classes gives a row of
/// `off_value`, as in TensorFlow. Also works without a graph. TensorFlow: slim.one_hot_encoding.
/// Throws kInvalidArgument for labels that are not integral, or fewer than one class.
at::Tensor one_hot_encoding(const at::Tensor& labels, std::int64_t num_classes,
                            const OneHotOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<one_hot_encoding> =
    layer_kind<OneHotOptions>("one_hot_encoding");

}  // namespace brigade::layers

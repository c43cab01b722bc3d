#include "brigade/layers/basic_layers.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/softmax.h>

#include "brigade/base/error.h"
#include "brigade/layers/dense_product.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

at::Tensor fully_connected(const at::Tensor& inputs, std::int64_t num_outputs,
                           const FullyConnectedOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<fully_connected>, options);
  check_dimensions("fully_connected", inputs, 2);
  check_outputs("fully_connected", num_outputs);
  const OpenLayer layer(options.scope, "fully_connected", arguments.reuse);
  const auto input = layer.place("MatMul", inputs);
  const auto weights = get_weights("weights", {num_outputs, input.size(-1)}, input, arguments);
  const auto biases = get_biases(num_outputs, input, arguments);
  return finished(layer, arguments, dense_product(input, weights, biases));
}

at::Tensor bias_add(const at::Tensor& inputs, const BiasAddOptions& options) {
  auto arguments = arguments_in_force(kLayerKind<bias_add>, options);
  check_dimensions("bias_add", inputs, 2);
  if (!arguments.activation) arguments.activation = nullptr;
  const OpenLayer layer(options.scope, "BiasAdd", arguments.reuse);
  const auto input = layer.place("BiasAdd", inputs);
  const auto biases = get_biases(input.size(1), input, arguments);
  if (!biases.defined()) return finished(layer, arguments, input.clone());
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = input.size(1);
  return finished(layer, arguments, input + biases.view(shape));
}

at::Tensor flatten(const at::Tensor& inputs, const FlattenOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<flatten>, options);
  check_dimensions("flatten", inputs, 2);
  const OpenOperation operation(options.scope, "Flatten");
  return operation.collected(arguments.outputs_collections,
                             operation.place("Reshape", inputs).flatten(1));
}

at::Tensor dropout(const at::Tensor& inputs, const DropoutOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<dropout>, options);
  const double keep_prob = arguments.keep_prob.value_or(0.5);
  check_dimensions("dropout", inputs, 0);
  check_keep_prob("dropout", keep_prob);
  const OpenOperation operation(options.scope, "Dropout");
  const bool is_training =
      arguments.mode.value_or(variables::Mode::kTraining) == variables::Mode::kTraining;
  const auto input = operation.place("dropout", inputs);
  return operation.collected(
      arguments.outputs_collections,
      is_training && keep_prob < 1.0 ? at::dropout(input, 1.0 - keep_prob, /*train=*/true) : input);
}

at::Tensor softmax(const at::Tensor& logits, const std::string& scope) {
  check_dimensions("softmax", logits, 1);
  const OpenOperation operation(scope, "softmax");
  return at::softmax(operation.place("Softmax", logits), -1);
}

at::Tensor unit_norm(const at::Tensor& inputs, std::int64_t dimension, double epsilon,
                     const std::string& scope) {
  check_dimensions("unit_norm", inputs, 1);
  if (dimension < 0 || dimension >= inputs.dim()) {
    throw Error(ErrorCode::kInvalidArgument, "unit_norm: inputs of shape ", inputs.sizes(),
                " have no dimension ", dimension, "; expected one from 0 to below ", inputs.dim());
  }
  const OpenOperation operation(scope, "UnitNorm");
  const auto input = operation.place("UnitNorm", inputs);
  return input / (input.square().sum(dimension, /*keepdim=*/true) + epsilon).sqrt();
}

at::Tensor one_hot_encoding(const at::Tensor& labels, std::int64_t num_classes,
                            const OneHotOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<one_hot_encoding>, options);
  check_dimensions("one_hot_encoding", labels, 0);
  check_outputs("one_hot_encoding", num_classes);
  if (!at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)) {
    throw Error(ErrorCode::kInvalidArgument, "one_hot_encoding: labels have dtype ",
                at::toString(labels.scalar_type()), "; expected integral class numbers");
  }
  const OpenOperation operation(options.scope, "OneHotEncoding");
  const auto numbers = operation.place("one_hot", labels).to(at::kLong).unsqueeze(-1);
  auto rows = at::eq(numbers, at::arange(num_classes, numbers.options())).to(at::kFloat);
  if (options.on_value != 1.0 || options.off_value != 0.0) {
    rows.mul_(options.on_value - options.off_value).add_(options.off_value);
  }
  return operation.collected(arguments.outputs_collections, std::move(rows));
}

}  // namespace brigade::layers

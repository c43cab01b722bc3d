#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

/// Options of `repeat`.
struct RepeatOptions {
  /// The variable scope around the layers, and the prefix of their names: "conv" makes conv/conv_1,
  /// conv/conv_2, ... Default: the scope Repeat or Stack, made unique, with repeat_1 or stack_1,
  /// ... in it.
  std::optional<std::string> scope = std::nullopt;
};

/// A layer that is applied several times, each time with a different name.
using NamedLayer = std::function<at::Tensor(const at::Tensor& inputs, const std::string& scope)>;

/// Applies the same layer `repetitions` times in sequence:
///
///   net = repeat(net, 3, [](const auto& x, const auto& scope) {
///     return conv2d(x, 64, 3, {.scope = scope});
///   }, {.scope = "conv1"});
///
/// TensorFlow: slim.repeat (which without a scope names them for the layer's Python function).
/// Throws kInvalidArgument for a negative number of repetitions.
inline at::Tensor repeat(const at::Tensor& inputs, int repetitions, const NamedLayer& layer,
                         const RepeatOptions& options = {}) {
  if (repetitions < 0) {
    throw Error(ErrorCode::kInvalidArgument, "repeat: the number of repetitions is ", repetitions,
                "; expected 0 or more");
  }
  const OpenLayer around(options.scope ? LayerScope(*options.scope) : LayerScope(), "Repeat",
                         std::nullopt);
  at::Tensor outputs = inputs;
  for (int number = 1; number <= repetitions; ++number) {
    outputs = layer(outputs, base::str_cat(options.scope.value_or("repeat"), "_", number));
  }
  return outputs;
}

/// Applies a layer for each element of `arguments` in sequence, called as `layer(inputs, argument,
/// scope)`:
///
///   net = stack(net, std::vector{256, 128}, [](const auto& x, int units, const auto& scope) {
///     return fully_connected(x, units, {.scope = scope});
///   }, {.scope = "fc"});
///
/// TensorFlow: slim.stack.
template <class Argument, class Layer>
at::Tensor stack(const at::Tensor& inputs, const std::vector<Argument>& arguments,
                 const Layer& layer, const RepeatOptions& options = {}) {
  const OpenLayer around(options.scope ? LayerScope(*options.scope) : LayerScope(), "Stack",
                         std::nullopt);
  at::Tensor outputs = inputs;
  int number = 0;
  for (const auto& argument : arguments) {
    outputs =
        layer(outputs, argument, options.scope.value_or("stack") + "_" + std::to_string(++number));
  }
  return outputs;
}

}  // namespace brigade::layers

#include "brigade/layers/bias_add.h"

#include "brigade/layers/checks.h"

namespace brigade::layers {

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

}  // namespace brigade::layers

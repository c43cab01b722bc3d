#include "brigade/layers/fully_connected.h"

#include <ATen/ops/linear.h>

#include "brigade/layers/checks.h"

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
  return finished(layer, arguments, at::linear(input, weights, biases));
}

}  // namespace brigade::layers

#include "brigade/layers/layer_norm.h"

#include <ATen/ops/group_norm.h>

#include "brigade/layers/checks.h"
#include "brigade/layers/normalization.h"

namespace brigade::layers {

at::Tensor layer_norm(const at::Tensor& inputs, const LayerNormOptions& options) {
  auto arguments = arguments_in_force(kLayerKind<layer_norm>, options);
  check_dimensions("layer_norm", inputs, 2);
  if (!arguments.activation) arguments.activation = nullptr;
  const OpenLayer layer(options.scope, "LayerNorm", arguments.reuse);
  const auto input = layer.place("LayerNorm", inputs);
  const auto beta = arguments.center.value_or(true) ? get_beta(input, arguments) : at::Tensor();
  const auto gamma = arguments.scale.value_or(true) ? get_gamma(input, arguments) : at::Tensor();
  // A single group of all channels is the whole example.
  return finished(layer, arguments,
                  at::group_norm(input, 1, gamma, beta, arguments.epsilon.value_or(1e-12)));
}

}  // namespace brigade::layers

#include "brigade/layers/layer_arguments.h"

#include <ATen/ops/relu.h>

namespace brigade::layers {

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

}  // namespace brigade::layers

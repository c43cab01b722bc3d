#include "brigade/layers/dropout.h"

#include <ATen/ops/dropout.h>

#include "brigade/layers/checks.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

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

}  // namespace brigade::layers

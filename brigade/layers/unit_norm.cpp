#include "brigade/layers/unit_norm.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/checks.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

at::Tensor unit_norm(const at::Tensor& inputs, std::int64_t dimension, double epsilon,
                     const std::string& scope) {
  check_dimensions("unit_norm", inputs, 1);
  if (dimension < 0 || dimension >= inputs.dim()) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("unit_norm: inputs of shape ", inputs.sizes(), " have no dimension ",
                              dimension, "; expected one from 0 to below ", inputs.dim()));
  }
  const OpenOperation operation(scope, "UnitNorm");
  const auto input = operation.place("UnitNorm", inputs);
  return input / (input.square().sum(dimension, /*keepdim=*/true) + epsilon).sqrt();
}

}  // namespace brigade::layers

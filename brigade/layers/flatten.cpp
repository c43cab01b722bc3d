#include "brigade/layers/flatten.h"

#include "brigade/layers/checks.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

at::Tensor flatten(const at::Tensor& inputs, const FlattenOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<flatten>, options);
  check_dimensions("flatten", inputs, 2);
  const OpenOperation operation(options.scope, "Flatten");
  return operation.collected(arguments.outputs_collections,
                             operation.place("Reshape", inputs).flatten(1));
}

}  // namespace brigade::layers

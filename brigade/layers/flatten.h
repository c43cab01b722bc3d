#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"

namespace brigade::layers {

struct FlattenOptions {
  std::vector<std::string> outputs_collections = {};
  std::string scope = {};  ///< default: Flatten, made unique
};

/// `inputs` [N, ...] as [N, the product of the rest]; a view where it can be one. Images are laid
/// out [C, H, W] here and [H, W, C] in TensorFlow, so the order of the features differs. Also works
/// without a graph. TensorFlow: slim.flatten. Throws kInvalidArgument for fewer than two
/// dimensions.
at::Tensor flatten(const at::Tensor& inputs, const FlattenOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<flatten> = layer_kind<FlattenOptions>("flatten");

}  // namespace brigade::layers

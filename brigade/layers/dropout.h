#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"

namespace brigade::layers {

struct DropoutOptions {
  /// The probability that an element is kept; kept elements are divided by it. Default 0.5. In (0,
  /// 1].
  std::optional<double> keep_prob = std::nullopt;
  /// Default kTraining; in kEvaluation the inputs are returned unchanged.
  std::optional<variables::Mode> mode = std::nullopt;
  std::vector<std::string> outputs_collections = {};
  std::string scope = {};  ///< default: Dropout, made unique
};

/// Sets elements to zero at random; a replica uses its own generator. Also works without a graph.
/// TensorFlow: slim.dropout. Throws kInvalidArgument for a keep_prob outside of its range.
at::Tensor dropout(const at::Tensor& inputs, const DropoutOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<dropout> = layer_kind<DropoutOptions>("dropout");

}  // namespace brigade::layers

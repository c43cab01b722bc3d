#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"

namespace brigade::layers {

struct OneHotOptions {
  double on_value = 1.0;
  double off_value = 0.0;
  std::vector<std::string> outputs_collections = {};
  std::string scope = {};  ///< default: OneHotEncoding, made unique
};

/// Class numbers `labels` of any shape and integral dtype as float32 rows [..., num_classes]:
/// `on_value` at the label, `off_value` elsewhere. A label outside of the classes gives a row of
/// `off_value`, as in TensorFlow. Also works without a graph. TensorFlow: slim.one_hot_encoding.
/// Throws kInvalidArgument for labels that are not integral, or fewer than one class.
at::Tensor one_hot_encoding(const at::Tensor& labels, std::int64_t num_classes,
                            const OneHotOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<one_hot_encoding> =
    layer_kind<OneHotOptions>("one_hot_encoding");

}  // namespace brigade::layers

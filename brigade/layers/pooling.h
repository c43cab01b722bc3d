#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"

namespace brigade::layers {

/// See `LayerArguments` for what the fields mean.
struct PoolOptions {
  std::optional<Size2d> stride = std::nullopt;    ///< default 2
  std::optional<Padding> padding = std::nullopt;  ///< default kValid
  std::vector<std::string> outputs_collections = {};
  std::string scope = {};  ///< default: MaxPool2D, made unique
};

/// The largest element of every `window` of `images` [N, C, H, W]. No variables; also works without
/// a graph. Call it as `layers::max_pool2d`: an unqualified call is ambiguous with libtorch's
/// function of the same name. TensorFlow: slim.max_pool2d. Throws kInvalidArgument for images or a
/// window that do not fit.
at::Tensor max_pool2d(const at::Tensor& images, Size2d window, const PoolOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<max_pool2d> = layer_kind<PoolOptions>("max_pool2d");

/// See `LayerArguments` for what the fields mean.
struct AvgPoolOptions {
  std::optional<Size2d> stride = std::nullopt;    ///< default 2
  std::optional<Padding> padding = std::nullopt;  ///< default kValid
  /// Default false, as in TensorFlow: at the edges, the mean of those elements that belong to the
  /// image. True: the sum of these, divided by all elements of the window, as PyTorch's
  /// `count_include_pad` and torchvision's Inception.
  std::optional<bool> count_padding = std::nullopt;
  std::vector<std::string> outputs_collections = {};
  std::string scope = {};  ///< default: AvgPool2D, made unique
};

/// The mean of every window. TensorFlow: slim.avg_pool2d. Otherwise as `max_pool2d`.
at::Tensor avg_pool2d(const at::Tensor& images, Size2d window, const AvgPoolOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<avg_pool2d> = layer_kind<AvgPoolOptions>("avg_pool2d");

}  // namespace brigade::layers

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/models/keras/keras_layers.h"
#include "brigade/variables/mode.h"

namespace brigade::models {

/// What layers get besides their inputs.
struct ForwardPass {
  variables::Mode mode = variables::Mode::kTraining;
  /// Of images and kernels: `SequentialOptions::memory_format`.
  std::optional<at::MemoryFormat> memory_format = std::nullopt;
  /// Layers whose results are end points: `SequentialOptions::end_points`.
  std::vector<std::string> end_points = {};
};

/// The forward pass of a sequence of layers, all of which have names. For `Sequential`.
///
/// Throws as `Sequential`. Thread-safety: one thread per graph, as layers.
at::Tensor apply_layers(std::span<const Layer> layers, const at::Tensor& inputs,
                        const ForwardPass& pass);

/// How many layers at the begin of `layers` are computed together: 2 where a convolution and the
/// pooling after it are fused, which they are not if the convolution is an end point; otherwise 1.
std::size_t layers_in_step(std::span<const Layer> layers, const ForwardPass& pass);

}  // namespace brigade::models

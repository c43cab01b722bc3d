#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// The options of `OptimizerOptions::gradient_scaler`, with PyTorch's defaults.
struct GradientScalerOptions {
  /// By how much the first step's loss is multiplied.
  double initial_scale = 65536.0;
  /// By how much the scale is multiplied after `growth_interval` updates in sequence.
  double growth_factor = 2.0;
  /// By how much it is multiplied after an overflow.
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
};

/// By how much the loss is multiplied for backward, so that gradients in float16 are neither too
/// small nor too large for it: it falls when gradients overflow, and grows slowly otherwise. Part
/// of an `Optimizer`; each replica has one, and all make the same changes.
///
/// Thread-safety: its replica's thread in a run, the caller's outside.
class GradientScaler {
 public:
  /// Throws kInvalidArgument, naming the field, for values that make no sense: a scale or growth
  /// interval that is not positive, a growth factor below 1, a backoff factor that is not between 0
  /// and 1.
  explicit GradientScaler(const GradientScalerOptions& options);

  double scale() const { return scale_; }
  /// After a step: whether its gradients were finite in all replicas. Throws kAborted if the scale
  /// would fall below 2^-24, because then it is not the scale that makes gradients infinite; the
  /// scale stays as it is.
  enum class Outcome { kFinite, kOverflow };
  void update(Outcome outcome);

  /// The scale and the number of updates since it changed.
  io::StateTree save() const;
  /// Throws kInvalidArgument, changing nothing, for a state that `save` does not return.
  void restore(const io::StateTree& saved);

 private:
  GradientScalerOptions options_;
  double scale_;
  std::int64_t updates_since_change_ = 0;
};

/// Whether all defined gradients are finite, of rows as well.
bool are_finite(std::span<const at::Tensor> gradients);

}  // namespace brigade::distribute

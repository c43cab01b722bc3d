#pragma once

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// Adagrad (Duchi et al., 2011), on libtorch's fused kernel: each element's rate shrinks with the
/// sum of its squared gradients, so rare rows of an embedding keep a large one. Defaults are
/// PyTorch's; TensorFlow's initial accumulator is 0.1 and its epsilon 1e-7.
struct Adagrad {
  double learning_rate = 1e-2;
  /// The rate is divided by 1 + `learning_rate_decay` * (earlier updates).
  double learning_rate_decay = 0.0;
  /// Added to the gradient as `weight_decay * parameter`.
  double weight_decay = 0.0;
  /// The first value of the sums of squares.
  double initial_accumulator_value = 0.0;
  /// Added to the root of the sum of squares, by which the gradient is divided.
  double epsilon = 1e-10;

  /// The rule with this configuration. Throws kInvalidArgument naming the field and the values
  /// allowed.
  UpdateRulePtr rule() const;
};

}  // namespace brigade::optim

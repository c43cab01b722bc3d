#pragma once

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// Adam (Kingma and Ba, 2015), on libtorch's fused kernel. Defaults are PyTorch's; TensorFlow's
/// epsilon is 1e-7.
struct Adam {
  double learning_rate = 1e-3;
  /// The fraction of the mean of gradients, and of the mean of their squares, that an update keeps.
  double beta1 = 0.9;
  double beta2 = 0.999;
  /// Added to the root of the mean of squares, by which the mean is divided.
  double epsilon = 1e-8;
  /// Added to the gradient as `weight_decay * parameter` (an L2 penalty). For decoupled decay use
  /// AdamW.
  double weight_decay = 0.0;

  /// The rule with this configuration. Throws kInvalidArgument naming the field and the values
  /// allowed.
  UpdateRulePtr rule() const;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019). Defaults are PyTorch's.
struct AdamW {
  double learning_rate = 1e-3;
  /// `beta1`, `beta2` and `epsilon` as in Adam.
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// Each step multiplies the parameter by 1 - `learning_rate * weight_decay`.
  double weight_decay = 1e-2;

  /// As Adam::rule.
  UpdateRulePtr rule() const;
};

}  // namespace brigade::optim

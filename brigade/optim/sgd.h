#pragma once

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// Stochastic gradient descent with momentum, on libtorch's fused kernel, in PyTorch's form: the
/// velocity is `momentum * velocity + gradient`, and the first step's velocity is the gradient.
struct Sgd {
  double learning_rate = 1e-2;
  /// The fraction of the velocity that an update keeps; 0: the gradient alone counts.
  double momentum = 0.0;
  /// Added to the gradient as `weight_decay * parameter`.
  double weight_decay = 0.0;
  /// The momentum looks one step ahead (Nesterov, 1983; Sutskever et al., 2013). Needs a momentum
  /// above 0.
  bool nesterov = false;

  /// The rule with this configuration. Throws kInvalidArgument naming the field and the values
  /// allowed.
  UpdateRulePtr rule() const;
};

}  // namespace brigade::optim

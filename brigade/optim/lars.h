#pragma once

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// Layer-wise adaptive rate scaling (You, Gitman and Ginsburg, 2017): SGD with momentum whose rate
/// is, for each variable, proportional to the variable's norm over its gradient's. It keeps
/// trainings stable with batches of thousands of examples; for smaller ones choose Sgd.
///
///   trust = trust_coefficient * |parameter|
///           / (|gradient| + weight_decay * |parameter| + epsilon)
///   velocity = momentum * velocity
///              + learning_rate * trust * (gradient + weight_decay * parameter)
///   parameter -= velocity
///
/// The trust of a variable is 1 if its norm or its gradient's is 0. Defaults are those of
/// TensorFlow's LARSOptimizer (tf.contrib.opt), except for the learning rate, which has no default
/// there. Biases and the scales of norms should be excluded from both trust and weight decay, as
/// its skip_list does:
///
///   strategy.optimizer(model, optim::Lars{.learning_rate = 10},
///                      {.groups = {{.names = {"*.bias", "*norm*"},
///                                   .weight_decay = 0,
///                                   .layer_adaptation = false}}});
///
/// It needs whole variables (`UpdateRule::needs_whole_variables`). Each strategy gives it those,
/// except that variables which a partitioner divides are refused, and groups without layer
/// adaptation on parameter servers. Gradients of rows are made dense.
struct Lars {
  /// Much larger than SGD's, since it is multiplied by the trust, and usually warmed up
  /// (`WarmUp` before a `PolynomialDecay`: brigade/optim/schedule.h).
  double learning_rate = 1.0;
  /// The fraction of the velocity that an update keeps.
  double momentum = 0.9;
  /// Added to the gradient as `weight_decay * parameter`.
  double weight_decay = 1e-4;
  /// By how much a variable may change in a step, as a fraction of its norm, at a rate of 1.
  /// TensorFlow: eeta.
  double trust_coefficient = 1e-3;
  /// Added to the divisor of the trust.
  double epsilon = 0.0;

  /// The rule with this configuration. Throws kInvalidArgument naming the field and the values
  /// allowed.
  UpdateRulePtr rule() const;
};

}  // namespace brigade::optim

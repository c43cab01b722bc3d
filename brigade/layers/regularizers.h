#pragma once

#include <vector>

#include "brigade/variables/variable_options.h"

/// Functions from a variable's value to a scalar that is added to the loss. `get_variable` stores
/// one when it creates the variable, so it counts once even if several towers use the variable.
///
/// All throw kInvalidArgument for a negative scale; a scale of 0 gives an empty function, which
/// means no regularizer.
///
/// Thread-safety: pure functions.
namespace brigade::layers {

using variables::Regularizer;

/// `scale` times the sum of the absolute values. TensorFlow: slim.l1_regularizer.
Regularizer l1_regularizer(double scale);
/// `scale` times half the sum of the squares. TensorFlow: slim.l2_regularizer.
Regularizer l2_regularizer(double scale);
/// Both. TensorFlow: slim.l1_l2_regularizer.
Regularizer l1_l2_regularizer(double scale_l1 = 1.0, double scale_l2 = 1.0);
/// The sum of those that are not empty; empty if all are. TensorFlow: slim.sum_regularizer.
Regularizer sum_regularizer(std::vector<Regularizer> regularizers);

}  // namespace brigade::layers

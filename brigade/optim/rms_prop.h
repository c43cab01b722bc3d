#pragma once

#include <string_view>

#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// The two published forms of RMSProp. They differ in where epsilon and the learning rate are, so
/// the same rates do not carry over from one to the other.
enum class RmsPropForm {
  /// TensorFlow's and Keras's:
  ///   velocity = momentum * velocity + learning_rate * gradient / sqrt(mean_square + epsilon)
  ///   parameter -= velocity
  /// The velocity contains the rates of earlier steps. A large epsilon is useful: with 1.0, as in
  /// Inception's training, the rule is close to SGD where gradients are small.
  kTensorFlow,
  /// PyTorch's:
  ///   velocity = momentum * velocity + gradient / (sqrt(mean_square) + epsilon)
  ///   parameter -= learning_rate * velocity
  kPyTorch
};

/// "tensorflow" or "pytorch".
std::string_view to_string(RmsPropForm form);

/// RMSProp (Tieleman and Hinton, 2012): each gradient is divided by the root of a fading mean of
/// its squares, `mean_square = decay * mean_square + (1 - decay) * gradient^2`. Choose it to train
/// the Inception and MobileNet families as they were published; Adam corrects the mean's start and
/// is the usual choice elsewhere.
///
/// Defaults are those of tf.compat.v1.train.RMSPropOptimizer, except for the learning rate, which
/// has no default there and is Keras's here. Other programs' rules:
///
///   RmsProp{.learning_rate = 0.045, .momentum = 0.9, .epsilon = 1.0}  // Inception v3, TF-Slim
///   RmsProp{.epsilon = 1e-7, .initial_mean_square = 0}                // keras.optimizers.RMSprop
///   RmsProp{.learning_rate = 1e-2, .decay = 0.99, .epsilon = 1e-8,
///           .initial_mean_square = 0, .form = RmsPropForm::kPyTorch}  // torch.optim.RMSprop
///
/// Gradients of rows are applied lazily, as in TensorFlow: other rows and their slots keep their
/// values. Elements are updated independently, in an order of operations that does not depend on
/// the range, so on CPU float32 and float64 have the same bits however parameters are split.
struct RmsProp {
  double learning_rate = 1e-3;
  /// The fraction of the means that an update keeps. Keras: rho; PyTorch: alpha.
  double decay = 0.9;
  /// The fraction of the velocity that an update keeps.
  double momentum = 0.0;
  /// Added to the mean of squares, or in PyTorch's form to its root.
  double epsilon = 1e-10;
  /// Added to the gradient as `weight_decay * parameter`.
  double weight_decay = 0.0;
  /// The first mean of squares. TensorFlow's 1 keeps first steps small; Keras and PyTorch begin
  /// with 0.
  double initial_mean_square = 1.0;
  /// Divides by the deviation instead: a fading mean of the gradients is kept as well, and its
  /// square is subtracted from the mean of squares.
  bool centered = false;
  /// Where epsilon and the learning rate are.
  RmsPropForm form = RmsPropForm::kTensorFlow;

  /// The rule with this configuration. Throws kInvalidArgument naming the field and the values
  /// allowed.
  UpdateRulePtr rule() const;
};

}  // namespace brigade::optim

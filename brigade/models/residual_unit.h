#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "brigade/variables/initializer.h"
#include "brigade/variables/mode.h"

/// What residual networks are made of. For `resnet` and `cifar_resnet`.
///
/// Thread-safety: one thread for a graph, as layers.
namespace brigade::models {

/// How the shortcut of a residual unit gets the shape of the unit's result, where it differs from
/// that of its input.
enum class Shortcut {
  kProjection,   ///< by a 1x1 convolution with batch norm
  kZeroPadding,  ///< without parameters: every second row and column, and more channels of zeros
};

/// What all convolutions and units of a network have in common.
struct ResidualStyle {
  variables::Initializer weights_initializer = {};  ///< of convolutions
  /// Of the weights of the classifier, whose biases begin at 0 then. If empty, both are uniform in
  /// +-1 / sqrt(features), as PyTorch's Linear.
  variables::Initializer classifier_initializer = {};
  /// Whether convolutions have biases besides batch norm (which makes them superfluous).
  bool use_bias = false;
  /// The fraction of the moving statistics that each step keeps, and what is added to the variance.
  double batch_norm_decay = 0.9;
  double batch_norm_epsilon = 1e-5;
  /// Whether the last gamma of each unit is 0 at the beginning, so that the unit is the identity.
  bool zero_init_residual = false;
  Shortcut shortcut = Shortcut::kProjection;
  /// Whether the first convolution of a bottleneck unit has its stride; else the second one.
  bool first_has_stride = false;
  /// kTraining: batch norm normalizes by the batch and moves its averages; kEvaluation: by the
  /// averages.
  variables::Mode mode = variables::Mode::kTraining;
};

/// A convolution of a residual network, with symmetric padding.
struct ResidualConvolution {
  std::int64_t channels = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t rate = 1;
  std::int64_t groups = 1;
  bool has_relu = true;
  bool zero_init = false;  ///< gamma is 0 at the beginning
  std::string scope = {};
};

/// Convolution, batch norm, and relu if there is one. Variables: scope/weights, scope/biases if the
/// style has them, scope/BatchNorm/{gamma, beta, moving_mean, moving_variance}.
at::Tensor residual_convolution(const at::Tensor& inputs, const ResidualConvolution& convolution,
                                const ResidualStyle& style);

struct ResidualUnit {
  std::int64_t channels = 0;  ///< of the result
  std::int64_t width = 0;     ///< channels inside of a bottleneck unit
  std::int64_t groups = 1;    ///< of a bottleneck unit's 3x3 convolution
  std::int64_t stride = 1;
  /// The distances between the elements of 3x3 windows before and after the stride of this unit,
  /// which differ if a stride of 2 is replaced by a dilation of 2: with stride 1, rates r and 2r,
  /// every second row and column of the result is that of stride 2, rates r and r.
  std::int64_t rate_before = 1;
  std::int64_t rate = 1;
  std::string scope = {};  ///< must be set
};

/// relu(shortcut + two 3x3 convolutions). Scopes: conv1, conv2, and shortcut if the shapes differ.
at::Tensor basic_unit(const at::Tensor& inputs, const ResidualUnit& unit,
                      const ResidualStyle& style);

/// relu(shortcut + 1x1, 3x3 and 1x1 convolutions). Scopes: conv1, conv2, conv3, and shortcut if the
/// shapes differ.
at::Tensor bottleneck_unit(const at::Tensor& inputs, const ResidualUnit& unit,
                           const ResidualStyle& style);

/// The linear layer "logits" over the last dimension of `features`.
at::Tensor residual_classifier(const at::Tensor& features, std::int64_t num_classes,
                               const ResidualStyle& style);

}  // namespace brigade::models

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "brigade/layers/end_points.h"
#include "brigade/models/residual_unit.h"
#include "brigade/variables/mode.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::models {

/// Options of `cifar_resnet`.
struct CifarResNetOptions {
  /// 6n + 2 for n units in each of the three blocks: 20, 32, 44, 56, 110 in the paper.
  int depth = 20;
  std::int64_t num_classes = 10;
  /// kZeroPadding is the paper's option A, which it uses for these networks; kProjection is option
  /// B.
  Shortcut shortcut = Shortcut::kZeroPadding;
  /// Channels of the first block; the others have 2 and 4 times as many.
  std::int64_t channels = 16;
  /// kTraining: batch norm normalizes by the batch and moves its averages; kEvaluation: by the
  /// averages.
  variables::Mode mode = variables::Mode::kTraining;
  /// Whether the variables are created or found by their names.
  variables::Reuse reuse = variables::Reuse::kInherit;
  /// The variable scope of the layers; empty: none.
  std::string scope = {};
};

/// What `cifar_resnet` returns.
struct CifarResNetResult {
  at::Tensor logits;  ///< [N, classes]
  /// By name, in this order: conv1, block1/unit_1, ..., block1, ..., block3, global_pool, logits,
  /// predictions (the softmax).
  layers::EndPoints end_points;
};

/// The residual networks for CIFAR (He et al., 2015, section 4.2), as a function of layers: a 3x3
/// convolution, three blocks of n units of two 3x3 convolutions with 16, 32 and 64 channels, the
/// mean over positions, and a linear classifier. `images` are [N, C, H, W], 32x32 in the paper.
/// When to use it: for experiments that take minutes; `resnet` with `small_images` has 40 times as
/// many parameters.
///
/// ResNet-20 has 269,722 trainable parameters with option A, 272,474 with option B, whose
/// convolutions have batch norm. With option A the channels of zeros come after the others. Weights
/// begin with He et al.'s normal distribution by fan in, as in the paper, and the classifier's
/// uniform in +-1 / sqrt(features); batch norm has decay 0.9 and epsilon 1e-5. The paper trains
/// with a weight decay of 1e-4, a momentum of 0.9, batches of 128 and a rate of 0.1, divided by 10
/// after 32,000 and 48,000 of 64,000 steps, on images padded by 4, cropped and flipped at random.
///
/// Variables: conv1/weights, conv1/BatchNorm/..., block1/unit_1/conv1/..., logits/weights,
/// logits/biases, as `resnet`. Argument scopes apply as there. Throws kInvalidArgument for options
/// outside of their ranges, and as `layers::conv2d`. Thread-safety: as layers, one thread per
/// graph.
CifarResNetResult cifar_resnet(const at::Tensor& images, const CifarResNetOptions& options = {});

}  // namespace brigade::models

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"
#include "brigade/layers/end_points.h"
#include "brigade/variables/mode.h"
#include "brigade/variables/variable_scope.h"

/// Inception v3 as functions of layers, with the names, shapes and results of TF-Slim's
/// (slim/nets/inception_v3.py), and, with two options of its argument scope, of torchvision's.
/// Source: C. Szegedy, V. Vanhoucke, S. Ioffe, J. Shlens, Z. Wojna, "Rethinking the Inception
/// Architecture for Computer Vision", arXiv:1512.00567.
///
///   const auto defaults = layers::arg_scope(models::inception_v3_arg_scope());
///   const auto net = models::inception_v3(images, {.num_classes = 1000, .mode = mode});
///   loss = cross_entropy(net.logits) + 0.4 * cross_entropy(net.end_points.at("AuxLogits"));
///
/// Without that argument scope the convolutions have biases and no batch norm, as in TF-Slim.
/// Functions need an open graph: call them through `Strategy::create`.
///
/// Thread-safety: as layers, one thread per graph.
namespace brigade::models {

/// The arguments of `inception_v3_arg_scope`.
struct InceptionV3ArgScopeOptions {
  /// The factor of the L2 regularizer of all weights.
  double weight_decay = 4e-5;
  /// The standard deviation of the weights' initial values, a truncated normal distribution.
  double stddev = 0.1;
  /// The fraction of the moving statistics that each step keeps. PyTorch: 1 - momentum.
  double batch_norm_decay = 0.9997;
  /// Added to the variance before its root is taken.
  double batch_norm_epsilon = 1e-3;
  /// Whether batch norm has a factor, gamma. False in TF-Slim, true in torchvision.
  bool batch_norm_scale = false;
  /// Whether the average pooling of the branches counts the zeros around the image. False in
  /// TF-Slim, true in torchvision.
  bool count_padding = false;
};

/// The default arguments of the layers of `inception_v3`, with those of the scopes that are open.
/// TensorFlow: inception_v3_arg_scope. For weights of torchvision:
/// `{.batch_norm_decay = 0.9, .batch_norm_scale = true, .count_padding = true}`.
layers::CapturedArgScope inception_v3_arg_scope(const InceptionV3ArgScopeOptions& options = {});

/// What `inception_v3` and `inception_v3_base` return.
struct InceptionV3Result {
  /// Of `inception_v3` the logits, of `inception_v3_base` the last end point.
  at::Tensor output;
  /// The results of layers by name.
  layers::EndPoints end_points;
};

/// Options of `inception_v3_base`.
struct InceptionV3BaseOptions {
  /// The last layer to compute, one of `inception_v3_end_points`.
  std::string final_endpoint = "Mixed_7c";
  /// The least number of channels of a convolution, for a `depth_multiplier` below 1.
  std::int64_t min_depth = 16;
  /// Every convolution has this times the number of channels of the original, rounded down. More
  /// than 0.
  double depth_multiplier = 1.0;
  /// kTraining: batch norm normalizes by the batch and moves its averages; kEvaluation: by the
  /// averages.
  variables::Mode mode = variables::Mode::kTraining;
  /// Whether the variables are created or found by their names.
  variables::Reuse reuse = variables::Reuse::kInherit;
  /// The variable scope of the layers; empty: none.
  std::string scope = "InceptionV3";
};

/// The names of the end points of the base, in order: Conv2d_1a_3x3, Conv2d_2a_3x3, Conv2d_2b_3x3,
/// MaxPool_3a_3x3, Conv2d_3b_1x1, Conv2d_4a_3x3, MaxPool_5a_3x3, Mixed_5b to Mixed_5d, Mixed_6a to
/// Mixed_6e, Mixed_7a to Mixed_7c.
std::vector<std::string> inception_v3_end_points();

/// The convolutional part: `images` [N, 3, H, W] up to `final_endpoint`, which for images of 299 x
/// 299 and Mixed_7c is [N, 2048, 8, 8]. The end points are all layers up to there. TensorFlow:
/// inception_v3_base.
///
/// Throws kInvalidArgument for images of other than three channels, images that are too small
/// (below 75 x 75 for Mixed_7c; the error names the smallest size), an unknown end point (with the
/// nearest), and a `depth_multiplier` or `min_depth` that is not positive.
InceptionV3Result inception_v3_base(const at::Tensor& images,
                                    const InceptionV3BaseOptions& options = {});

/// Options of `inception_v3`; the defaults are TF-Slim's.
struct InceptionV3Options {
  /// 0: the result is that of the pooling, [N, 2048, 1, 1]; no logits, and no auxiliary ones.
  std::int64_t num_classes = 1000;
  /// kTraining: dropout drops, and batch norm normalizes by the batch and moves its averages.
  /// kEvaluation: nothing is dropped, and batch norm uses the averages.
  variables::Mode mode = variables::Mode::kTraining;
  /// The probability that dropout, before the logits, keeps a value in training. In (0, 1].
  double dropout_keep_prob = 0.8;
  /// As in `InceptionV3BaseOptions`.
  std::int64_t min_depth = 16;
  double depth_multiplier = 1.0;
  /// Whether logits are [N, num_classes]; otherwise [N, num_classes, 1, 1], or, for images larger
  /// than the original's 299 x 299 and without `global_pool`, with more positions than one.
  bool spatial_squeeze = true;
  /// Whether the variables are created or found by their names.
  variables::Reuse reuse = variables::Reuse::kInherit;
  /// Whether there is a second classifier after Mixed_6e, for a better gradient in training. Its
  /// logits are the end point AuxLogits; add their loss times 0.4. Needs images of 107 x 107 or
  /// more. (It is part of the model in evaluation too, as in TF-Slim: for a model that only
  /// predicts, switch it off.)
  bool create_aux_logits = true;
  /// The variable scope of the layers; empty: none.
  std::string scope = "InceptionV3";
  /// Whether the mean over all positions is taken before the logits, which is torchvision's way.
  /// Otherwise the mean over windows of 8 x 8 positions, or over the image if it has fewer: the
  /// same for images of up to 299 x 299.
  bool global_pool = false;
};

/// The logits of `images` [N, 3, H, W], for which 299 x 299 is the size of the original. Smaller
/// images work too (150 x 150, or 75 x 75 without the auxiliary logits): the last windows shrink.
/// With 1000 classes: 27,143,152 trainable parameters with the auxiliary logits, 23,817,352
/// without; with gamma 27,161,264, as torchvision's. Further end points: AvgPool_1a or global_pool,
/// PreLogits, Logits, Predictions (their softmax), AuxLogits. TensorFlow: inception_v3 of TF-Slim.
///
/// Throws kInvalidArgument as `inception_v3_base`, for a negative number of classes, a
/// `dropout_keep_prob` out of range, and logits of several positions with `spatial_squeeze`.
InceptionV3Result inception_v3(const at::Tensor& images, const InceptionV3Options& options = {});

}  // namespace brigade::models

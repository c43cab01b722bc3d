#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "brigade/layers/end_points.h"
#include "brigade/variables/mode.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::models {

/// The published variants of ResNet. kV1 and kV15 differ in bottleneck units, so from depth 50 on.
enum class ResNetVersion {
  /// The stride of a bottleneck unit is in its 3x3 convolution: torchvision's networks.
  kV15,
  /// The stride is in the first 1x1 convolution, as in the paper.
  kV1,
  /// tf.keras.applications.ResNet50, ResNet101, ResNet152: kV1 strides, convolutions with biases,
  /// batch norm with decay 0.99 and epsilon 1.001e-5, and Glorot's initialization.
  kKeras,
};

/// The blocks of the network of a depth.
struct ResNetBlocks {
  int depth = 0;
  bool has_bottlenecks = false;
  std::array<int, 4> units = {};  ///< of each block
};

/// Throws kInvalidArgument for a depth other than 18, 34, 50, 101 and 152.
/// The units of each block for a network of this depth.
const ResNetBlocks& resnet_blocks(int depth);

/// Options of `resnet`; the defaults are torchvision's resnet50.
struct ResNetOptions {
  /// 18 or 34 (units of two 3x3 convolutions), 50, 101 or 152 (bottleneck units). With kKeras 50,
  /// 101 or 152.
  int depth = 50;
  std::int64_t num_classes = 1000;
  /// Which published form of the network.
  ResNetVersion version = ResNetVersion::kV15;
  /// Begins with units that are the identity: their last gamma is 0. Often better for large
  /// batches. torchvision: the option of the same name.
  bool zero_init_residual = false;
  /// The quotient of the heights of images and features: 32 (unset), 16, 8 or 4; for small images 8
  /// (unset), 4, 2 or 1. The strides of the last blocks are then replaced by dilation, which keeps
  /// the receptive fields: each feature of stride 32 is also one of stride 16 (in evaluation). For
  /// segmentation and detection. torchvision: 8 is replace_stride_with_dilation {false, true,
  /// true}; its networks of depth 18 and 34 have none.
  std::optional<std::int64_t> output_stride = std::nullopt;
  /// If false, the classifier is applied at each position, and logits are [N, classes, H, W].
  bool global_pool = true;
  /// The dropout rate of the features in training, in [0, 1).
  double dropout = 0.0;
  /// Groups of the 3x3 convolutions of bottleneck units, and the number of channels of each group
  /// for each 64 of the unit. ResNeXt-50 32x4d is {.groups = 32, .width_per_group = 4}, Wide
  /// ResNet-50-2 is {.width_per_group = 128}. torchvision: the options of the same names.
  std::int64_t groups = 1;
  std::int64_t width_per_group = 64;
  /// Multiplies the numbers of channels of all layers, rounded down, at least 1.
  double depth_multiplier = 1.0;
  /// For images of about 32x32: begins with a 3x3 convolution of stride 1 and no pooling, instead
  /// of a 7x7 convolution of stride 2 and 3x3 max pooling.
  bool small_images = false;
  /// Those of the original if unset. A decay of 0.9 is PyTorch's momentum of 0.1.
  std::optional<double> batch_norm_decay = std::nullopt;
  std::optional<double> batch_norm_epsilon = std::nullopt;
  /// kTraining: dropout drops, and batch norm normalizes by the batch and moves its averages.
  /// kEvaluation: nothing is dropped, and batch norm uses the averages.
  variables::Mode mode = variables::Mode::kTraining;
  /// Whether the variables are created or found by their names.
  variables::Reuse reuse = variables::Reuse::kInherit;
  /// The variable scope of the layers; empty: none.
  std::string scope = {};
};

/// What `resnet` returns.
struct ResNetResult {
  at::Tensor logits;  ///< [N, classes], or [N, classes, H, W] without global pooling
  /// By name, in this order: conv1, pool1 (not for small images), block1/unit_1, ..., block1, ...,
  /// block4, global_pool [N, channels] (if pooled), logits, predictions (the softmax).
  layers::EndPoints end_points;
};

/// ResNet (He et al., 2015), as a function of layers. `images` are [N, C, H, W], of any size;
/// torchvision and the paper use 224x224, normalized by `image::kImageNetMean` and deviation; Keras
/// uses BGR images minus {103.939, 116.779, 123.68}, values 0 to 255.
///
/// Variables: conv1/weights, conv1/BatchNorm/{gamma, beta, moving_mean, moving_variance},
/// block1/unit_1/conv1/..., block1/unit_1/shortcut/..., logits/weights, logits/biases; kKeras has
/// conv1/biases too. `torchvision_names` has torchvision's names of them. With the default options
/// the depths 18, 34, 50, 101 and 152 have 11,689,512, 21,797,672, 25,557,032, 44,549,160 and
/// 60,192,808 trainable parameters, and kKeras with depth 50 has 25,583,592.
///
/// Initial values are those of the original: He et al.'s normal distribution by fan out, and
/// uniform in +-1 / sqrt(features) for the classifier (torchvision); Glorot uniform for kKeras.
///
/// Argument scopes of `conv2d`, `fully_connected` and `batch_norm` apply to arguments that this
/// function does not set: regularizers, `trainable`, collections, and `BatchStatistics::kGlobal`.
/// Needs an open graph: call it through `Strategy::create`.
///
/// Throws kInvalidArgument for options outside of their ranges, and as `layers::conv2d`.
/// Thread-safety: as layers, one thread per graph.
ResNetResult resnet(const at::Tensor& images, const ResNetOptions& options = {});

}  // namespace brigade::models

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/models/keras/keras_layers.h"
#include "brigade/variables/mode.h"

namespace brigade::models {

/// Options of `Sequential`.
struct SequentialOptions {
  /// The shape of one example: {1, 28, 28} for gray images. If set, the constructor checks all
  /// shapes, and `summary` needs no data.
  std::optional<ExampleShape> input_shape = std::nullopt;
  /// In messages and in `summary`.
  std::string name = "sequential";
  /// If above 0, training keeps activations only at every so many layers, and computes those
  /// between them again in backward (`layers::recompute`). Values do not change. See
  /// `Sequential::recompute_every`.
  int recompute_every = 0;
  /// The order of images and kernels in memory; see `layers::LayerArguments::memory_format`. Unset:
  /// contiguous, with fused convolution and pooling.
  std::optional<at::MemoryFormat> memory_format = std::nullopt;
  /// Names of layers whose results each pass adds to the collection `layers::kEndPoints`, for
  /// `train::extract_features`: any that `names` or `summary` shows.
  std::vector<std::string> end_points = {};
};

/// A model as a sequence of layers. It is a value that describes the model; `Strategy::create`, or
/// a `train::Model`, creates the variables:
///
///   Sequential net({Conv2D{.filters = 32, .kernel_size = 3, .activation = "relu"}, MaxPooling2D{},
///                   Flatten{}, Dense{.units = 10, .activation = "softmax"}});
///   auto model = strategy.create(net, example_images);
///
/// Shapes are inferred from the input. Variables have the same names as in Keras: conv2d/kernel,
/// conv2d_1/bias, dense/kernel. `Residual` and `Branches` contain sequences of layers, for residual
/// networks and those with parallel convolutions. A convolution with relu and the 2x2 pooling after
/// it are fused where that is faster. Keras: Sequential.
///
/// Thread-safety: a value; const calls from any thread.
class Sequential {
 public:
  /// Throws kInvalidArgument if there is no layer, if two layers have the same name, for an end
  /// point that is no layer, and, with the name of the layer, if a layer cannot take the output of
  /// the previous one (with `input_shape` only).
  Sequential(std::vector<Layer> layers, SequentialOptions options = {});

  /// The same model, which in training recomputes the activations inside of groups of `num_layers`
  /// layers in backward: less memory, and steps that take a third to a half longer. The last group
  /// is not recomputed, since backward begins with it. For n layers whose activations are equally
  /// large, groups of sqrt(n) need least memory. Layers that are fused stay in one group. 0:
  /// nothing is recomputed. Throws kInvalidArgument below 0. PyTorch: checkpoint_sequential.
  Sequential recompute_every(int num_layers) const;

  /// The forward pass for `inputs` [N, ...], which must be floating-point. Needs an open graph
  /// (`Strategy::create` opens one). Throws kInvalidArgument for a shape that does not match.
  at::Tensor operator()(const at::Tensor& inputs, variables::Mode mode) const;

  /// With their names, also inside of `Residual` and `Branches`.
  const std::vector<Layer>& layers() const { return *layers_; }
  /// [layer]: "conv2d", "max_pooling2d", ...
  const std::vector<std::string>& names() const { return names_; }
  const SequentialOptions& options() const { return options_; }
  /// The output shape of one example.
  ExampleShape output_shape(const ExampleShape& input) const;
  /// The floating-point operations of the forward pass of one example: 2 for each multiply-add of
  /// `Dense` and `Conv2D` layers, which are nearly all; nothing else counts.
  std::int64_t flops(const ExampleShape& input) const;

  /// A human-readable table: layers (those inside of a layer indented before it), their output
  /// shapes, numbers of parameters and `flops`, and the totals. Throws kFailedPrecondition if the
  /// input shape is neither in the options nor an argument.
  std::string summary(const std::optional<ExampleShape>& input_shape = std::nullopt) const;

 private:
  std::shared_ptr<const std::vector<Layer>> layers_;  // shared with what backward computes again
  std::vector<std::string> names_;
  SequentialOptions options_;
};

}  // namespace brigade::models

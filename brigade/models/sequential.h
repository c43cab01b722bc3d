#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "brigade/models/layer_shapes.h"
#include "brigade/models/sequential_layers.h"
#include "brigade/variables/mode.h"

namespace brigade::models {

struct SequentialOptions {
  /// Of one example: {1, 28, 28} for gray images. With it, shapes are checked at once and a summary
  /// can be had before there is data.
  std::optional<ExampleShape> input_shape = std::nullopt;
  std::string name = "sequential";
};

/// A model as a list of layers, one behind the other. A value that describes the model; its
/// variables are made by `Strategy::build`, or by the `Model` that it is given to:
///
///   Sequential net({Conv2D{.filters = 32, .kernel_size = 3, .activation = "relu"}, MaxPooling2D{},
///                   Flatten{}, Dense{.units = 10, .activation = "softmax"}});
///   auto model = strategy.build(net, example_images);
///
/// Shapes are inferred from the input. Variables are called as in Keras: conv2d/kernel,
/// conv2d_1/bias, dense/kernel. A convolution with relu in front of pooling by 2x2 is computed in
/// one operation where that is faster. Keras: Sequential.
///
/// Thread-safety: a value; const calls from any thread.
class Sequential {
 public:
  /// Throws kInvalidArgument if there is no layer, if two have the same name, and, naming the
  /// layer, if one cannot take what comes before it (given an input shape).
  Sequential(std::vector<Layer> layers, SequentialOptions options = {});

  /// One pass over `inputs` [N, ...], which must be floating; in an open graph (`Strategy::build`
  /// sees to that). Throws kInvalidArgument for a shape that does not fit.
  at::Tensor operator()(const at::Tensor& inputs, variables::Mode mode) const;

  const std::vector<Layer>& layers() const { return layers_; }
  /// [layer]: "conv2d", "max_pooling2d", ...
  const std::vector<std::string>& names() const { return names_; }
  const SequentialOptions& options() const { return options_; }
  /// Of one example.
  ExampleShape output_shape(const ExampleShape& input) const;

  /// A table for people: layers, their output shapes, their numbers of parameters, and the sums.
  /// Throws kFailedPrecondition if neither this model nor the call says the input's shape.
  std::string summary(const std::optional<ExampleShape>& input_shape = std::nullopt) const;

 private:
  std::vector<Layer> layers_;
  std::vector<std::string> names_;
  SequentialOptions options_;
};

}  // namespace brigade::models

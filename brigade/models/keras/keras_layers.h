#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "brigade/layers/layer_arguments.h"
#include "brigade/layers/sliding_window.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/variables/initializer.h"
#include "brigade/variables/variable_options.h"

/// The layers of a `Sequential`, as structs, with the names and defaults of Keras. Images are [N,
/// C, H, W]. The default name of a layer is that of its type: conv2d, conv2d_1, ...
/// Thread-safety: values and pure functions.
namespace brigade::models {

/// The activation of a layer of a `Sequential`: a function, or one of Keras's activations by name
/// ("relu", "softmax", ...). Default: none.
///
/// Thread-safety: a value.
class NamedActivation {
 public:
  NamedActivation() = default;
  /// Throws kInvalidArgument, with the nearest name and all names, for an unknown name. "linear" is
  /// no activation.
  NamedActivation(const char* name) : NamedActivation(std::string(name)) {}
  NamedActivation(const std::string& name);
  template <std::invocable<const at::Tensor&> Function>
  NamedActivation(Function function) : name_("function"), function_(std::move(function)) {}

  /// "linear" for none, "function" for a function.
  const std::string& name() const { return name_; }
  /// Empty for none.
  const layers::Activation& function() const { return function_; }

 private:
  std::string name_ = "linear";
  layers::Activation function_;
};

/// All names, sorted.
std::vector<std::string> activation_names();

/// activation(inputs * kernel + bias) along the last dimension. Variables: kernel [units, in], bias
/// [units].
struct Dense {
  std::int64_t units = 0;  ///< must be set
  NamedActivation activation = {};
  bool use_bias = true;
  variables::Initializer kernel_initializer = {};  ///< default: Glorot uniform
  variables::Initializer bias_initializer = {};    ///< default: zeros
  variables::Regularizer kernel_regularizer = {};
  variables::Regularizer bias_regularizer = {};
  std::string name = {};
};

/// activation(convolution + bias). Variables: kernel [filters, C / groups, height, width], bias
/// [filters].
struct Conv2D {
  std::int64_t filters = 0;        ///< must be set
  layers::Size2d kernel_size = 0;  ///< must be set
  layers::Size2d strides = 1;
  layers::Padding padding = layers::Padding::kValid;
  layers::Size2d dilation_rate = 1;
  std::int64_t groups = 1;  ///< must divide the channels of the input and `filters`
  NamedActivation activation = {};
  bool use_bias = true;
  variables::Initializer kernel_initializer = {};  ///< default: Glorot uniform
  variables::Initializer bias_initializer = {};    ///< default: zeros
  variables::Regularizer kernel_regularizer = {};
  variables::Regularizer bias_regularizer = {};
  std::string name = {};
};

struct MaxPooling2D {
  layers::Size2d pool_size = 2;
  std::optional<layers::Size2d> strides = std::nullopt;  ///< default: pool_size
  layers::Padding padding = layers::Padding::kValid;
  std::string name = {};
};

struct AveragePooling2D {
  layers::Size2d pool_size = 2;
  std::optional<layers::Size2d> strides = std::nullopt;  ///< default: pool_size
  layers::Padding padding = layers::Padding::kValid;
  std::string name = {};
};

/// [N, ...] becomes [N, values].
struct Flatten {
  std::string name = {};
};

/// In training, sets a fraction `rate` of the values to 0 and scales up the others.
struct Dropout {
  double rate = 0.5;  ///< from 0 to below 1
  std::string name = {};
};

/// Normalizes each channel (dimension 1): in training by the statistics of the batch, else by
/// moving statistics. With several replicas, each normalizes by its per-replica batch, as in Keras.
/// Variables: gamma, beta, moving_mean, moving_variance.
struct BatchNormalization {
  double momentum = 0.99;
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  std::string name = {};
};

struct Activation {
  NamedActivation activation = {};
  std::string name = {};
};

struct ReLU {
  std::string name = {};
};

/// Over the last dimension.
struct Softmax {
  std::string name = {};
};

using Layer = std::variant<Dense, Conv2D, MaxPooling2D, AveragePooling2D, Flatten, Dropout,
                           BatchNormalization, Activation, ReLU, Softmax>;

/// The shape of one example, without the number of examples.
using ExampleShape = std::vector<std::int64_t>;

/// "Conv2D".
std::string_view type_name(const Layer& layer);
/// The default name of a layer of this type: "conv2d".
std::string_view default_name(const Layer& layer);
/// The name in the layer's options; empty if unset.
const std::string& given_name(const Layer& layer);

/// The output shape of `layer`, whose name is `name`, for an example of shape `input`. Throws
/// kInvalidArgument, with the layer and the shape, for an input that does not match, and for sizes
/// that are not positive.
ExampleShape output_shape(const Layer& layer, const std::string& name, const ExampleShape& input);

struct ParameterCount {
  std::int64_t trainable = 0;
  std::int64_t other = 0;
};
ParameterCount parameter_count(const Layer& layer, const ExampleShape& input);

/// "(None, 32, 26, 26)".
std::string shape_text(const ExampleShape& shape);

}  // namespace brigade::models

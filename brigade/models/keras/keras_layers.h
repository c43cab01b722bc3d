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

/// The largest value of each window. Images whose size the windows do not divide: as `padding`
/// says.
struct MaxPooling2D {
  layers::Size2d pool_size = 2;
  std::optional<layers::Size2d> strides = std::nullopt;  ///< default: pool_size
  layers::Padding padding = layers::Padding::kValid;
  std::string name = {};
};

/// The mean of each window; otherwise as `MaxPooling2D`.
struct AveragePooling2D {
  layers::Size2d pool_size = 2;
  std::optional<layers::Size2d> strides = std::nullopt;  ///< default: pool_size
  layers::Padding padding = layers::Padding::kValid;
  std::string name = {};
};

/// The mean over all positions of images: [N, C, H, W] becomes [N, C].
struct GlobalAveragePooling2D {
  bool keepdims = false;  ///< the result is [N, C, 1, 1]
  std::string name = {};
};

/// The largest value of all positions; otherwise as `GlobalAveragePooling2D`.
struct GlobalMaxPooling2D {
  bool keepdims = false;
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
  /// The fraction of a moving statistic that is kept at each update.
  double momentum = 0.99;
  /// Added to the variance before its root is taken.
  double epsilon = 0.001;
  /// Whether there is a beta, which is added, and a gamma, which multiplies.
  bool center = true;
  bool scale = true;
  std::string name = {};
};

/// Applies an activation to each value; softmax, to the last dimension.
struct Activation {
  NamedActivation activation = {};
  std::string name = {};
};

/// max(x, 0).
struct ReLU {
  std::string name = {};
};

/// Over the last dimension.
struct Softmax {
  std::string name = {};
};

struct Layer;

/// activation(layers(x) + shortcut(x)), as in residual networks:
///
///   Residual{.layers = {Conv2D{.filters = 64, .kernel_size = 3, .padding = Padding::kSame},
///                       BatchNormalization{}, ReLU{},
///                       Conv2D{.filters = 64, .kernel_size = 3, .padding = Padding::kSame},
///                       BatchNormalization{}},
///            .activation = "relu"}
///
/// The layers inside have names as those outside of it, in the order layers, shortcut: conv2d_1,
/// batch_normalization_1; the default name of the sum is add. Keras: the functional API with
/// layers.Add, whose variables have the same names if the layers are made in this order.
struct Residual {
  std::vector<Layer> layers;        ///< one or more, in sequence
  std::vector<Layer> shortcut;      ///< in sequence; none: x itself, of the shape of the result
  NamedActivation activation = {};  ///< of the sum
  std::string name = {};
};

/// Sequences of layers that all begin with the same input, and whose results are concatenated. An
/// empty one is the input itself. All results must have the same shape but for `axis`. Names are as
/// in `Residual`; the default name is concatenate. Keras: the functional API with
/// layers.Concatenate.
struct Branches {
  std::vector<std::vector<Layer>> branches;  ///< one or more
  /// The dimension of the results along which they are concatenated, where 0 is the examples' and 1
  /// that of channels. (In Keras the channels are the last dimension, its default.)
  std::int64_t axis = 1;
  std::string name = {};
};

/// One of the layers above.
struct Layer : std::variant<Dense, Conv2D, MaxPooling2D, AveragePooling2D, GlobalAveragePooling2D,
                            GlobalMaxPooling2D, Flatten, Dropout, BatchNormalization, Activation,
                            ReLU, Softmax, Residual, Branches> {
  using variant::variant;
};

/// The shape of one example, without the number of examples.
using ExampleShape = std::vector<std::int64_t>;
/// Of the examples of a batch; that of a scalar is empty.
ExampleShape example_shape(const at::Tensor& batch);

/// "Conv2D".
std::string_view type_name(const Layer& layer);
/// The default name of a layer of this type: "conv2d".
std::string_view default_name(const Layer& layer);
/// The name in the layer's options; empty if unset.
const std::string& given_name(const Layer& layer);

/// Sets the name in its options.
void set_name(Layer& layer, std::string name);

/// Calls `visit` with each sequence of layers (std::vector<Layer>&, const if the layer is) inside
/// of a `Residual` or `Branches`; other layers have none.
template <class AnyLayer, class Visit>
void for_each_path(AnyLayer& layer, const Visit& visit) {
  if (auto* residual = std::get_if<Residual>(&layer)) {
    visit(residual->layers);
    visit(residual->shortcut);
  } else if (auto* branches = std::get_if<Branches>(&layer)) {
    for (auto& path : branches->branches) visit(path);
  }
}

/// The output shape of `layer`, whose name is `name`, for an example of shape `input`. Throws
/// kInvalidArgument, with the layer and the shape, for an input that does not match, and for sizes
/// that are not positive.
ExampleShape output_shape(const Layer& layer, const std::string& name, const ExampleShape& input);

/// Numbers of elements of variables: of those that are trained, and of the others, such as moving
/// statistics.
struct ParameterCount {
  std::int64_t trainable = 0;
  std::int64_t other = 0;
};
/// Of the layer, and those inside of it.
ParameterCount parameter_count(const Layer& layer, const ExampleShape& input);

/// The floating-point operations of the forward pass of one example: two for each multiply-add of
/// `Dense` and `Conv2D`, alone and inside of the layer. Biases, activations, normalization, pooling
/// and sums do not count, which are few in comparison.
std::int64_t flops(const Layer& layer, const ExampleShape& input);

/// The output shape, parameters and operations of a sequence of layers, which have names.
ExampleShape output_shape(const std::vector<Layer>& layers, ExampleShape input);
ParameterCount parameter_count(const std::vector<Layer>& layers, ExampleShape input);
std::int64_t flops(const std::vector<Layer>& layers, ExampleShape input);

/// "(None, 32, 26, 26)".
std::string shape_text(const ExampleShape& shape);

}  // namespace brigade::models

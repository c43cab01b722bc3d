#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/models/sequential_layers.h"

/// Names, shapes and parameter counts of the layers of a `Sequential`, which need no data.
/// Thread-safety: pure functions.
namespace brigade::models {

/// The shape of one example, without the number of examples.
using ExampleShape = std::vector<std::int64_t>;

/// "Conv2D".
std::string_view type_name(const Layer& layer);
/// The default name of a layer of this type: "conv2d".
std::string_view default_name(const Layer& layer);
/// The name in the layer's options; empty if unset.
const std::string& given_name(const Layer& layer);
/// The name of the layer's activation; "linear" for layers without activation.
std::string_view activation_name(const Layer& layer);

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

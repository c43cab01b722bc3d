#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/layers/layer_arguments.h"

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

}  // namespace brigade::models

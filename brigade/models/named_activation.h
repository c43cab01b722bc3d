#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/layers/activation.h"

namespace brigade::models {

/// What a layer of a `Sequential` does to its result at the end: a function, or one of Keras's by
/// name ("relu", "softmax", ...). Nothing, if not said.
///
/// Thread-safety: a value.
class NamedActivation {
 public:
  NamedActivation() = default;
  /// Throws kInvalidArgument, naming the nearest and all names, for an unknown one. "linear" is
  /// none.
  NamedActivation(const char* name) : NamedActivation(std::string(name)) {}
  NamedActivation(const std::string& name);
  template <std::invocable<const at::Tensor&> Function>
  NamedActivation(Function function) : name_("function"), function_(std::move(function)) {}

  /// "linear" for none, "function" for one that was given as such.
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

#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace brigade::train {

/// What one step of training returns, by name and in the order given: `{{"loss", loss}}`. Hooks
/// look at it. Tensors are kept as they are and read only when somebody asks for a number, because
/// reading waits for the device.
///
/// Thread-safety: one thread at a time.
class StepValues {
 public:
  StepValues() = default;
  StepValues(std::initializer_list<std::pair<std::string, at::Tensor>> values);

  /// Adds a value, or replaces it. A tensor must not need a graph any more: it is detached.
  void set(std::string_view name, const at::Tensor& value);
  void set(std::string_view name, double value);

  bool has(std::string_view name) const;
  /// In the order in which they were given.
  std::vector<std::string> names() const;
  /// Throws kNotFound, naming those that there are.
  const at::Tensor& tensor(std::string_view name) const;
  /// The value of one element; waits for its device. Throws kNotFound, and kInvalidArgument for a
  /// tensor of another size.
  double number(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, at::Tensor>> values_;
};

}  // namespace brigade::train

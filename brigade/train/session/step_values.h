#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace brigade::train {

/// The values of one training step, by name and in the given order: `{{"loss", loss}}`. Hooks read
/// them. Tensors are stored as they are and converted only by `number`, because that waits for the
/// device.
///
/// Thread-safety: one thread at a time.
class StepValues {
 public:
  StepValues() = default;
  StepValues(std::initializer_list<std::pair<std::string, at::Tensor>> values);

  /// Adds or replaces a value. Tensors are detached.
  void set(std::string_view name, const at::Tensor& value);
  void set(std::string_view name, double value);

  bool has(std::string_view name) const;
  /// In the order in which they were added.
  std::vector<std::string> names() const;
  /// Throws kNotFound, with the existing names.
  const at::Tensor& tensor(std::string_view name) const;
  /// The value of a tensor with one element; waits for its device. Throws kNotFound, and
  /// kInvalidArgument for a tensor of another size.
  double number(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, at::Tensor>> values_;
};

}  // namespace brigade::train

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/variables/variable_options.h"

namespace brigade::variables {

/// A variable in parts, each a variable of its own (`name/part_0`, ...) that may live on a device
/// of its own.
///
/// Thread-safety: as Variable.
class PartitionedVariable {
 public:
  /// Throws kInvalidArgument for no parts.
  PartitionedVariable(std::string name, std::vector<Variable> parts, std::int64_t axis);

  const std::string& name() const { return name_; }
  const std::vector<Variable>& parts() const { return parts_; }
  std::int64_t axis() const { return axis_; }
  std::vector<std::int64_t> shape() const;
  /// The parts behind one another, on the first part's device; differentiable. In a replica of its
  /// own components.
  at::Tensor value() const;

 private:
  std::string name_;
  std::vector<Variable> parts_;
  std::int64_t axis_;
};

/// As `get_variable`, cut as the partitioner in force says; a single part, named without `/part_0`,
/// where there is none, and for scalars. A variable that was cut is also found without a
/// partitioner, in a scope that reuses.
///
/// The first value is that of the whole, cut: into how many parts it is cut changes no value. (In
/// TensorFlow each part is drawn by itself, so it does.) Custom getters get each part; regularizers
/// count for each part.
///
/// Throws as `get_variable`, and kInvalidArgument for a partitioner that cuts more than one axis or
/// otherwise than the existing variable was cut.
PartitionedVariable get_partitioned_variable(
    const std::string& name, const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
    const VariableOptions& options = {});

}  // namespace brigade::variables

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/variables/variable_options.h"

namespace brigade::variables {

/// A variable split into partitions. Each partition is a separate variable (`name/part_0`, ...) and
/// may be on a different device.
///
/// Thread-safety: as Variable.
class PartitionedVariable {
 public:
  /// Throws kInvalidArgument if `parts` is empty.
  PartitionedVariable(std::string name, std::vector<Variable> parts, std::int64_t axis);

  const std::string& name() const { return name_; }
  const std::vector<Variable>& parts() const { return parts_; }
  std::int64_t axis() const { return axis_; }
  std::vector<std::int64_t> shape() const;
  /// The concatenation of the partitions, on the first one's device; differentiable. In a replica,
  /// of its own components.
  at::Tensor value() const;

 private:
  std::string name_;
  std::vector<Variable> parts_;
  std::int64_t axis_;
};

/// As `get_variable`, split by the current partitioner. Without a partitioner, and for scalars,
/// there is a single partition, named without `/part_0`. A scope that reuses also finds a
/// partitioned variable without a partitioner.
///
/// The initial value is that of the whole variable, split: it does not depend on the number of
/// partitions. (In TensorFlow it does, because each partition is initialized separately.) Custom
/// getters are called for each partition; regularizers apply to each partition.
///
/// Throws as `get_variable`, and kInvalidArgument for a partitioner that splits more than one axis,
/// or differently from the existing variable.
PartitionedVariable get_partitioned_variable(
    const std::string& name, const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
    const VariableOptions& options = {});

}  // namespace brigade::variables

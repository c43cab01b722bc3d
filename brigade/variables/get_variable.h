#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/variables/layer_value.h"     // the variable's value where a layer computes
#include "brigade/variables/variable_lists.h"  // variables by collection
#include "brigade/variables/variable_options.h"
#include "brigade/variables/variable_request.h"

namespace brigade::variables {

/// Gets or creates the variable `scope/name` in the current graph's store, depending on the scope's
/// reuse. Variables are created outside of replicas only; inside, all names are reused. The initial
/// value depends only on the store's seed and the full name. TensorFlow: tf.get_variable.
///
/// Without a shape, a variable of any shape is found. The dtype is always checked: it is the
/// call's, the initializer's, the scope's, else float32. So, as in TensorFlow, the dtype must be
/// given to find an int64 variable. Custom getters of the open scopes are called before the store.
///
/// Throws kAlreadyExists if the name exists and the scope does not reuse; kNotFound if it does not
/// exist and the scope reuses; kInvalidArgument if shape or dtype differ from the existing
/// variable's (naming both), for a missing shape if the initializer has none, for a shape together
/// with an initializer that is a value, and for an initializer of another dtype;
/// kFailedPrecondition without a graph, or if the current partitioner splits the variable (use
/// `get_partitioned_variable`).
Variable get_variable(const std::string& name,
                      const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
                      const VariableOptions& options = {});

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
/// Checkpoints have the whole variable, with its optimizer slots, so that it can be restored with
/// any number of partitions. The initial value is that of the whole variable, split: it does not
/// depend on the number of partitions. (In TensorFlow it does, because each partition is
/// initialized separately.) Custom getters are called for each partition; regularizers apply to
/// each partition.
///
/// Throws as `get_variable`, and kInvalidArgument for a partitioner that splits more than one axis,
/// or differently from the existing variable.
PartitionedVariable get_partitioned_variable(
    const std::string& name, const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
    const VariableOptions& options = {});

/// How to partition the variable of `request`: by its partitioner, or as the existing variable;
/// empty if it is not partitioned. Throws as `get_partitioned_variable`.
std::optional<Partition> partition_in_force(const VariableStore& store, const VariableScope& scope,
                                            const GetVariableRequest& request);

/// Throws kInvalidArgument, naming the variable, if a partitioner's answer makes no sense: not one
/// positive number for each axis, or more than one above 1.
void check_counts(const std::string& name, const Partition& cut);

/// The axis that is split, 0 if none is.
std::size_t axis_of(const Partition& cut);
std::int64_t num_parts(const Partition& cut);

/// Gets or creates the partitions.
PartitionedVariable fetch_parts(Graph& graph, const VariableScope& scope,
                                const GetVariableRequest& request, const Partition& cut);

}  // namespace brigade::variables

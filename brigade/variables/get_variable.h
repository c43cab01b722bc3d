#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/variables/variable_options.h"

namespace brigade::variables {

/// Finds or makes the variable `scope/name` of the current graph's store: makes it if the scope
/// creates, finds it if the scope reuses. Outside of replicas only does it make one; inside, all
/// names are reused. The first value depends on the store's seed and the full name alone.
/// TensorFlow: tf.get_variable.
///
/// Throws kAlreadyExists if the name exists and the scope does not reuse; kNotFound if it does not
/// exist and the scope reuses; kInvalidArgument if shape or dtype differ from the existing
/// variable's (naming both), for no shape where the initialiser brings none, for a shape beside an
/// initialiser that is a value, and for an initialiser of another dtype; kFailedPrecondition without
/// a graph, or if the partitioner in force cuts the variable (use `get_partitioned_variable`).
Variable get_variable(const std::string& name,
                      const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
                      const VariableOptions& options = {});

/// A variable in parts, each a variable of its own (`name/part_0`, ...) that may live on a device of
/// its own.
///
/// Thread-safety: as Variable.
class PartitionedVariable {
 public:
  PartitionedVariable(std::string name, std::vector<Variable> parts, std::int64_t axis);

  const std::string& name() const { return name_; }
  const std::vector<Variable>& parts() const { return parts_; }
  std::int64_t axis() const { return axis_; }
  std::vector<std::int64_t> shape() const;
  /// The parts behind one another, on the first part's device; differentiable.
  at::Tensor value() const;

 private:
  std::string name_;
  std::vector<Variable> parts_;
  std::int64_t axis_;
};

/// As `get_variable`, cut as the partitioner in force says; a single part, named without `/part_0`,
/// where there is none. Throws kInvalidArgument also for a partitioner that cuts more than one axis
/// or otherwise than the existing variable was cut.
PartitionedVariable get_partitioned_variable(const std::string& name,
                                             const std::optional<std::vector<std::int64_t>>& shape,
                                             const VariableOptions& options = {});

/// What layers compute with: the value of `get_variable` (or of the parts), in a replica its own
/// component, on the device `device` or, if null, where the variable lives. Copied at most once a
/// pass; the gradient arrives where the variable lives.
at::Tensor get_value(const std::string& name, const std::vector<std::int64_t>& shape,
                     const VariableOptions& options = {});

/// Variables of the current graph's store, in the order of their making, whose name begins with
/// `scope`. TensorFlow: tf.global_variables and its kin, slim.get_model_variables.
std::vector<Variable> get_variables(std::string_view collection, std::string_view scope = "");
std::vector<Variable> global_variables(std::string_view scope = "");
std::vector<Variable> trainable_variables(std::string_view scope = "");
std::vector<Variable> local_variables(std::string_view scope = "");
std::vector<Variable> get_model_variables(std::string_view scope = "");

/// Global variables whose name begins with one of `include` (all, if empty) and with none of
/// `exclude`. A scope matches whole path components or the start of a name, as in Slim:
/// "InceptionV3/Logits". TensorFlow: slim.get_variables_to_restore.
std::vector<Variable> get_variables_to_restore(std::span<const std::string> include = {},
                                               std::span<const std::string> exclude = {});

/// The regularisers' values of all variables that have one, each once, in the order of their making.
/// In a replica of its own components. Differentiable.
std::vector<at::Tensor> get_regularization_losses(std::string_view scope = "");

/// The variable "global_step", an int64 scalar that counts updates: found, or made if there is none.
/// Not trainable; in kGlobalVariables and kGlobalStep. Whoever applies gradients counts it.
/// TensorFlow: tf.train.get_or_create_global_step.
Variable get_or_create_global_step();
/// Empty if there is none.
std::optional<Variable> get_global_step();

}  // namespace brigade::variables

#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/variables/variable.h"
#include "brigade/variables/variable_store.h"

/// Variables of the current graph's store by collection. All throw kFailedPrecondition without a
/// graph.
namespace brigade::variables {

/// In the order of their making, those whose name begins with `scope`. TensorFlow:
/// tf.global_variables and its kin, slim.get_model_variables.
std::vector<Variable> get_variables(std::string_view collection, std::string_view scope = "");
std::vector<Variable> global_variables(std::string_view scope = "");
std::vector<Variable> trainable_variables(std::string_view scope = "");
std::vector<Variable> local_variables(std::string_view scope = "");
std::vector<Variable> get_model_variables(std::string_view scope = "");

/// Global variables whose name begins with one of `include` (all, if empty) and with none of
/// `exclude`: "InceptionV3/Logits". Each once, in the order of their making. TensorFlow:
/// slim.get_variables_to_restore.
std::vector<Variable> get_variables_to_restore(std::span<const std::string> include = {},
                                               std::span<const std::string> exclude = {});

/// The regularizers' values of all variables that have one, each once, in the order of their
/// making. In a replica of its own components. Differentiable.
std::vector<at::Tensor> get_regularization_losses(std::string_view scope = "");

/// The variable "global_step", an int64 scalar that counts updates: found, or made if there is
/// none. Its name is whole whatever scope is open. Not trainable; in kGlobalVariables and
/// kGlobalStep. Whoever applies gradients counts it. TensorFlow:
/// tf.train.get_or_create_global_step. Throws kNotFound inside a replica if there is none.
Variable get_or_create_global_step();
/// Empty if there is none.
std::optional<Variable> get_global_step();

}  // namespace brigade::variables

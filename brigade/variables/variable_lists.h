#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/variables/variable.h"
#include "brigade/variables/variable_store.h"

/// Lists of the variables of the current graph's store by collection. All functions throw
/// kFailedPrecondition without a graph.
namespace brigade::variables {

/// The variables whose name begins with `scope`, in the order of creation. TensorFlow:
/// tf.global_variables and similar functions, slim.get_model_variables.
std::vector<Variable> get_variables(std::string_view collection, std::string_view scope = "");
std::vector<Variable> global_variables(std::string_view scope = "");
std::vector<Variable> trainable_variables(std::string_view scope = "");
std::vector<Variable> local_variables(std::string_view scope = "");
std::vector<Variable> get_model_variables(std::string_view scope = "");

/// Global variables whose name begins with one of `include` (all, if empty) and with none of
/// `exclude`: "InceptionV3/Logits". Each once, in the order of creation. TensorFlow:
/// slim.get_variables_to_restore.
std::vector<Variable> get_variables_to_restore(std::span<const std::string> include = {},
                                               std::span<const std::string> exclude = {});

/// The regularizers' values of all variables that have one, each once, in the order of creation. In
/// a replica, of its own components. Differentiable.
std::vector<at::Tensor> get_regularization_losses(std::string_view scope = "");

/// Gets or creates the variable "global_step", an int64 scalar that counts updates. Open scopes do
/// not change its name. Not trainable; in kGlobalVariables and kGlobalStep. The code that applies
/// gradients increments it. TensorFlow: tf.train.get_or_create_global_step. Throws kNotFound inside
/// a replica if there is none.
Variable get_or_create_global_step();
/// The same, but empty if there is none.
std::optional<Variable> get_global_step();

}  // namespace brigade::variables

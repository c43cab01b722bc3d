#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/device/device_scope.h"
#include "brigade/layers/arg_scope.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/layers/regularizers.h"
#include "brigade/layers/repeat_layers.h"
#include "brigade/layers/v1/tf_losses.h"
#include "brigade/machine/device_name.h"
#include "brigade/variables/collections.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/initializer.h"
#include "brigade/variables/variable_scope.h"

/// Layers, losses, regularizers, initializers and lists of variables with the names of TF-Slim, so
/// that code reads as there: `slim::conv2d(net, 64, 3, {.scope = "conv1"})`. Most of these are
/// aliases, which are documented where they are declared.
namespace brigade::slim {

using layers::arg_scope;
using layers::arg_scoped_arguments;
using layers::avg_pool2d;
using layers::batch_norm;
using layers::batch_normalizer;
using layers::BatchStatistics;
using layers::bias_add;
using layers::CapturedArgScope;
using layers::conv2d;
using layers::current_arg_scope;
using layers::dropout;
using layers::end_points;
using layers::EndPoints;
using layers::flatten;
using layers::fully_connected;
using layers::layer_norm;
using layers::max_pool2d;
using layers::one_hot_encoding;
using layers::Padding;
using layers::relu;
using layers::repeat;
using layers::separable_conv2d;
using layers::Size2d;
using layers::softmax;
using layers::stack;
using layers::unit_norm;

using layers::l1_l2_regularizer;
using layers::l1_regularizer;
using layers::l2_regularizer;
using layers::Regularizer;
using layers::sum_regularizer;

using variables::constant_initializer;
using variables::Initializer;
using variables::ones_initializer;
using variables::random_normal_initializer;
using variables::random_uniform_initializer;
using variables::truncated_normal_initializer;
using variables::variance_scaling_initializer;
using variables::zeros_initializer;
/// Glorot initializers: the default for the weights of layers. TensorFlow:
/// slim.xavier_initializer(uniform=True), and xavier_initializer(uniform=False).
inline Initializer xavier_initializer() {
  return variables::glorot_uniform_initializer();
}
inline Initializer xavier_normal_initializer() {
  return variables::glorot_normal_initializer();
}

using variables::get_global_step;
using variables::get_model_variables;
using variables::get_or_create_global_step;
using variables::get_variables;
using variables::get_variables_to_restore;
using variables::local_variables;
using variables::Mode;
using variables::Reuse;
using variables::Variable;
using variables::variable_scope;
using variables::VariableOptions;
/// TensorFlow: slim.get_trainable_variables.
inline std::vector<Variable> get_trainable_variables(std::string_view scope = "") {
  return variables::trainable_variables(scope);
}

/// A variable, as `variables::get_variable`. TensorFlow: slim.variable.
inline Variable variable(const std::string& name,
                         const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
                         const VariableOptions& options = {}) {
  return variables::get_variable(name, shape, options);
}
/// A variable that inference needs: it is also in the model variables. TensorFlow:
/// slim.model_variable.
Variable model_variable(const std::string& name,
                        const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
                        VariableOptions options = {});
/// A variable such as a counter: only in the local variables, not trained, and not saved.
/// TensorFlow: slim.local_variable.
Variable local_variable(const std::string& name,
                        const std::optional<std::vector<std::int64_t>>& shape = std::nullopt,
                        VariableOptions options = {});
/// The variables below `scope` whose last name component is `name` ("weights" of all layers), or
/// whose name ends in `suffix`. TensorFlow: slim.get_variables_by_name,
/// slim.get_variables_by_suffix.
std::vector<Variable> get_variables_by_name(std::string_view name, std::string_view scope = "");
std::vector<Variable> get_variables_by_suffix(std::string_view suffix, std::string_view scope = "");
/// The variable with exactly this name. Throws kNotFound, with the existing names. TensorFlow:
/// slim.get_unique_variable.
Variable get_unique_variable(std::string_view name);

/// Options of `variable_device_chooser`.
struct VariableDeviceChooserOptions {
  /// The number of tasks that get variables in round-robin order; 0: no cluster.
  int num_tasks = 0;
  /// The job of the tasks; not used without tasks.
  std::string job_name = "ps";
  /// The device, in each task or in this process.
  machine::DeviceType device_type = machine::DeviceType::kCpu;
  int device_index = 0;
};
/// Places variables on one device, of the tasks in round-robin order if there are any:
/// "/job:ps/task:1/device:CPU:0". Copies share the round-robin counter. For `with_device`.
/// TensorFlow: slim.VariableDeviceChooser. Throws kInvalidArgument for negative numbers.
device::DeviceFunction variable_device_chooser(const VariableDeviceChooserOptions& options = {});

/// Losses that add themselves to the current pass, and `get_total_loss`. TensorFlow: slim.losses.
namespace losses = layers::v1::losses;

}  // namespace brigade::slim

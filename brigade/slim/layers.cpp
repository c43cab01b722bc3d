#include "brigade/slim/layers.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/device/device_functions.h"
#include "brigade/machine/device_spec.h"

namespace brigade::slim {

Variable model_variable(const std::string& name,
                        const std::optional<std::vector<std::int64_t>>& shape,
                        VariableOptions options) {
  auto collections =
      options.collections.value_or(std::vector<std::string>{variables::kGlobalVariables});
  if (std::ranges::find(collections, variables::kModelVariables) == collections.end())
    collections.push_back(variables::kModelVariables);
  options.collections = std::move(collections);
  return variables::get_variable(name, shape, options);
}

Variable local_variable(const std::string& name,
                        const std::optional<std::vector<std::int64_t>>& shape,
                        VariableOptions options) {
  options.trainable = false;
  options.collections = std::vector<std::string>{variables::kLocalVariables};
  return variables::get_variable(name, shape, options);
}

std::vector<Variable> get_variables_by_name(std::string_view name, std::string_view scope) {
  std::vector<Variable> found = variables::global_variables(scope);
  std::erase_if(found, [&](const Variable& variable) {
    return variable.name() != name && !variable.name().ends_with(base::str_cat("/", name));
  });
  return found;
}

std::vector<Variable> get_variables_by_suffix(std::string_view suffix, std::string_view scope) {
  std::vector<Variable> found = variables::global_variables(scope);
  std::erase_if(found,
                [&](const Variable& variable) { return !variable.name().ends_with(suffix); });
  return found;
}

Variable get_unique_variable(std::string_view name) {
  std::vector<std::string> names;
  for (const Variable& variable : variables::global_variables()) {
    if (variable.name() == name) return variable;
    names.push_back(variable.name());
  }
  throw Error(ErrorCode::kNotFound, "There is no variable '", name,
              "'; there are: ", base::join(names, ", "), ".");
}

device::DeviceFunction variable_device_chooser(const VariableDeviceChooserOptions& options) {
  check_argument(options.num_tasks >= 0 && options.device_index >= 0,
                 "variable_device_chooser: num_tasks is ", options.num_tasks, " and device_index ",
                 options.device_index, "; neither may be negative.");
  machine::DeviceSpec spec{.type = options.device_type, .index = options.device_index};
  device::PlacementStrategy round_robin;
  if (options.num_tasks > 0) {
    spec.job = options.job_name;
    round_robin = device::round_robin_strategy(options.num_tasks);
  }
  return [spec, round_robin](const device::PlacementRequest& request) {
    if (request.kind != device::PlacedKind::kVariable) return request.inner;
    machine::DeviceSpec chosen = spec;
    if (round_robin) chosen.task = round_robin(request);
    return chosen.to_string();
  };
}

}  // namespace brigade::slim

#include "brigade/slim/assign_from_checkpoint.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/weights_file.h"
#include "brigade/train/evaluation/checkpoint_evaluation.h"

namespace brigade::slim {

using checkpoint::NamedTensor;
using checkpoint::RestoreOptions;
using variables::Variable;

namespace {

/// What is stored in a checkpoint or a file.
checkpoint::WeightsFile read_model(const AssignOptions& options, const io::Path& path) {
  const auto& files = options.files;
  check_argument(files != nullptr, "AssignOptions::files is null.");
  if (checkpoint::is_weights_file(*files, path)) {
    return checkpoint::read_weights_file(files, path, options.hash_mismatch);
  }
  if (files->exists(path)) return {.tensors = train::open_checkpoint(files, path).tensors()};
  throw Error(ErrorCode::kNotFound, "There is nothing to assign at ", path.string());
}

/// The variables, and their names in the checkpoint where these differ.
struct Assignment {
  std::vector<Variable> variables;
  std::vector<checkpoint::Rename> renames;
};

Assignment assignment_of(const VariablesByName& var_list) {
  Assignment result;
  for (const auto& [stored, variable] : var_list) {
    result.variables.push_back(variable);
    result.renames.push_back(checkpoint::Rename::name(variable.name(), stored));
  }
  return result;
}

Assignment assignment_of(std::span<const Variable> var_list) {
  return {.variables = {var_list.begin(), var_list.end()}, .renames = {}};
}

checkpoint::RestoreReport assign(const io::Path& model_path, const Assignment& assignment,
                                 const AssignOptions& options) {
  check_argument(!assignment.variables.empty(), "assign_from_checkpoint: var_list is empty.");
  RestoreOptions restore;
  restore.renames = assignment.renames;
  if (options.ignore_missing_vars) restore.missing = checkpoint::Missing::kSkip;
  if (options.reshape_variables) restore.shapes = checkpoint::Shapes::kReshape;
  const checkpoint::WeightsFile model = read_model(options, model_path);
  restore.layout = model.layout();
  restore.flattened = options.flattened;
  restore.include = options.include;
  restore.exclude = options.exclude;
  return checkpoint::restore_variables(model.tensors, model_path.string(), assignment.variables,
                                       restore);
}

bool has_any(const checkpoint::WeightsFile& model, const Assignment& assignment) {
  const bool is_tensorflow = model.format == checkpoint::WeightsFormat::kTensorFlow;
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(model.tensors, [&](const NamedTensor& each) {
      return each.name == name ||
             (is_tensorflow && checkpoint::without_attribute_suffix(each.name) == name);
    });
  };
  if (assignment.renames.empty()) {
    return std::ranges::any_of(assignment.variables, [&](const Variable& variable) {
      return has(variable.name()) || std::ranges::any_of(variable.aliases(), has);
    });
  }
  for (std::size_t i = 0; i < assignment.variables.size(); ++i) {
    if (has(*assignment.renames[i].apply(assignment.variables[i].name()))) return true;
  }
  return false;
}

InitFunction assign_fn(const io::Path& model_path, const Assignment& assignment,
                       const AssignOptions& options) {
  check_argument(!assignment.variables.empty(), "assign_from_checkpoint_fn: var_list is empty.");
  if (options.ignore_missing_vars && !has_any(read_model(options, model_path), assignment)) {
    base::log_warning("assign_from_checkpoint_fn: no variables to restore in ",
                      model_path.string());
    return {};
  }
  return [=](train::TrainingState&) { assign(model_path, assignment, options); };
}

}  // namespace

checkpoint::RestoreReport assign_from_checkpoint(const io::Path& model_path,
                                                 std::span<const Variable> var_list,
                                                 const AssignOptions& options) {
  return assign(model_path, assignment_of(var_list), options);
}

checkpoint::RestoreReport assign_from_checkpoint(const io::Path& model_path,
                                                 const VariablesByName& var_list,
                                                 const AssignOptions& options) {
  return assign(model_path, assignment_of(var_list), options);
}

InitFunction assign_from_checkpoint_fn(const io::Path& model_path,
                                       std::span<const Variable> var_list,
                                       const AssignOptions& options) {
  return assign_fn(model_path, assignment_of(var_list), options);
}

InitFunction assign_from_checkpoint_fn(const io::Path& model_path, const VariablesByName& var_list,
                                       const AssignOptions& options) {
  return assign_fn(model_path, assignment_of(var_list), options);
}

}  // namespace brigade::slim

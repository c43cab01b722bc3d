#include "brigade/slim/assign_from_checkpoint.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/torch_import.h"
#include "brigade/train/evaluation/checkpoint_evaluation.h"

namespace brigade::slim {

using base::str_cat;
using checkpoint::NamedTensor;
using checkpoint::RestoreOptions;
using variables::Variable;

namespace {

std::vector<NamedTensor> read_model(const AssignOptions& options, const io::Path& path) {
  const auto& files = options.files;
  check_argument(files != nullptr, "AssignOptions::files is null.");
  const auto info = files->info(path);
  if (!info)
    throw Error(ErrorCode::kNotFound, str_cat("There is nothing to assign at ", path.string()));
  if (info->kind == io::FileKind::kDirectory) return train::open_checkpoint(files, path).tensors();
  if (checkpoint::is_torch_file(*files, path)) return checkpoint::read_torch(*files, path).tensors;
  return checkpoint::read_weights(*files, path, options.hash_mismatch).tensors;
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
  return checkpoint::restore_variables(read_model(options, model_path), model_path.string(),
                                       assignment.variables, restore);
}

bool has_any(const std::vector<NamedTensor>& stored, const Assignment& assignment) {
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(stored, [&](const NamedTensor& each) { return each.name == name; });
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
    base::log_warning(
        str_cat("assign_from_checkpoint_fn: no variables to restore in ", model_path.string()));
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

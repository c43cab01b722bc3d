#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "brigade/checkpoint/restore.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/io/file_system.h"
#include "brigade/train/session/training_state.h"
#include "brigade/variables/variable.h"

namespace brigade::slim {

struct AssignOptions {
  /// Whether a variable that is not in the checkpoint keeps its value, with a warning. If false, it
  /// is an error, kNotFound: `Checkpoint is missing variable [x]`.
  bool ignore_missing_vars = false;
  /// Whether a stored tensor of another shape is accepted if it has the same number of elements.
  bool reshape_variables = false;
  /// Whether a safetensors file is accepted whose weights do not match its recorded hash
  /// (`checkpoint::read_weights`).
  checkpoint::HashMismatch hash_mismatch = checkpoint::HashMismatch::kRefuse;
  std::shared_ptr<io::FileSystem> files = io::posix_file_system();
};

/// Variables by their names in the checkpoint.
using VariablesByName = std::map<std::string, variables::Variable>;

/// Assigns the values at `model_path` to variables. `model_path` is a checkpoint, a directory of
/// checkpoints (the newest complete one is used), a safetensors file, or a file saved by PyTorch.
/// `slim::get_variables_to_restore(include, exclude)` selects variables. Nothing is assigned if any
/// value does not match. TensorFlow: slim.assign_from_checkpoint; this function also runs the
/// assignment.
///
/// Throws kInvalidArgument for an empty list and for values that do not match, kDataLoss for a file
/// whose weights were altered, and as `checkpoint::restore_variables`.
checkpoint::RestoreReport assign_from_checkpoint(const io::Path& model_path,
                                                 std::span<const variables::Variable> var_list,
                                                 const AssignOptions& options = {});
checkpoint::RestoreReport assign_from_checkpoint(const io::Path& model_path,
                                                 const VariablesByName& var_list,
                                                 const AssignOptions& options = {});

/// Sets the initial values of a training: `learning::TrainOptions::init_fn`,
/// `train::Scaffold::init`.
using InitFunction = std::function<void(train::TrainingState&)>;

/// Returns a function that performs the assignment when it is called: `.init_fn =
/// assign_from_checkpoint_fn(path, get_variables_to_restore({}, {"logits"}))`. The function is
/// empty, with a warning, if missing variables are ignored and the checkpoint contains none of
/// them. TensorFlow: slim.assign_from_checkpoint_fn.
InitFunction assign_from_checkpoint_fn(const io::Path& model_path,
                                       std::span<const variables::Variable> var_list,
                                       const AssignOptions& options = {});
InitFunction assign_from_checkpoint_fn(const io::Path& model_path, const VariablesByName& var_list,
                                       const AssignOptions& options = {});

}  // namespace brigade::slim

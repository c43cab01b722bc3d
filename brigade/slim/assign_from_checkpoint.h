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

enum class IgnoreMissingVars { kNo, kYes };
enum class ReshapeVariables { kNo, kYes };

struct AssignOptions {
  /// Whether a variable that the checkpoint lacks keeps its value, with a warning. With kNo it is
  /// kNotFound: `Checkpoint is missing variable [x]`.
  IgnoreMissingVars ignore_missing_vars = IgnoreMissingVars::kNo;
  /// Whether a stored tensor of another shape is taken if it has as many elements.
  ReshapeVariables reshape_variables = ReshapeVariables::kNo;
  /// Whether a safetensors file is taken whose weights are not those whose hash it records
  /// (`checkpoint::read_weights`).
  checkpoint::HashMismatch hash_mismatch = checkpoint::HashMismatch::kRefuse;
  std::shared_ptr<io::FileSystem> files = io::posix_file_system();
};

/// Variables by the names that they have in the checkpoint.
using VariablesByName = std::map<std::string, variables::Variable>;

/// Gives variables the values that lie at `model_path`: a checkpoint, a directory of checkpoints
/// (the newest whole one), a safetensors file, or what PyTorch saved. Which ones:
/// `slim::get_variables_to_restore(include, exclude)`. Nothing is assigned if anything does not
/// fit. TensorFlow: slim.assign_from_checkpoint, whose operation this performs.
///
/// Throws kInvalidArgument for an empty list and for what does not fit, kDataLoss for a file of
/// weights that were altered, and as `checkpoint::restore_variables`.
checkpoint::RestoreReport assign_from_checkpoint(const io::Path& model_path,
                                                 std::span<const variables::Variable> var_list,
                                                 const AssignOptions& options = {});
checkpoint::RestoreReport assign_from_checkpoint(const io::Path& model_path,
                                                 const VariablesByName& var_list,
                                                 const AssignOptions& options = {});

/// What gives a training its first values: `learning::TrainOptions::init_fn`,
/// `train::Scaffold::init`.
using InitFunction = std::function<void(train::TrainingState&)>;

/// A function that assigns, when it is called: `.init_fn = assign_from_checkpoint_fn(path,
/// get_variables_to_restore({}, {"logits"}))`. Empty, with a warning, if missing variables are
/// ignored and the checkpoint has none of them. TensorFlow: slim.assign_from_checkpoint_fn.
InitFunction assign_from_checkpoint_fn(const io::Path& model_path,
                                       std::span<const variables::Variable> var_list,
                                       const AssignOptions& options = {});
InitFunction assign_from_checkpoint_fn(const io::Path& model_path, const VariablesByName& var_list,
                                       const AssignOptions& options = {});

}  // namespace brigade::slim

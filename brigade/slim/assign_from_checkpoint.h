#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "brigade/checkpoint/restore.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/io/file_system.h"
#include "brigade/train/session/training_state.h"
#include "brigade/variables/variable.h"

namespace brigade::slim {

/// Options of `assign_from_checkpoint`.
struct AssignOptions {
  /// Whether a variable that is not in the checkpoint keeps its value, with a warning. If false, it
  /// is an error, kNotFound: `Checkpoint is missing variable [x]`.
  bool ignore_missing_vars = false;
  /// Whether a stored tensor of another shape is accepted if it has the same number of elements.
  bool reshape_variables = false;
  /// Whether a safetensors file is accepted whose weights do not match its recorded hash
  /// (`checkpoint::read_weights`).
  checkpoint::HashMismatch hash_mismatch = checkpoint::HashMismatch::kRefuse;
  /// Only variables of the list in these scopes are assigned (all, if empty), and none in those of
  /// `exclude`: `.exclude = {"net/logits"}` keeps the initial values of a new last layer. Scopes
  /// are those of `checkpoint::RestoreOptions`: "net/fc1" has no part in "net/fc10".
  std::vector<std::string> include = {};
  std::vector<std::string> exclude = {};
  /// For a checkpoint of TensorFlow, where a dense layer follows a flattened image: the image's
  /// shape, by the name of the layer's weights. Without it such a layer gets weights in another
  /// order (`checkpoint::to_torch_layout`). Counts for no other format.
  std::vector<std::pair<std::string, checkpoint::FlattenedImage>> flattened = {};
  /// The file system of the checkpoint.
  std::shared_ptr<io::FileSystem> files = io::posix_file_system();
};

/// Variables by their names in the checkpoint.
using VariablesByName = std::map<std::string, variables::Variable>;

/// Assigns the values at `model_path` to variables. `model_path` is a checkpoint, a directory of
/// checkpoints (the newest complete one is used), a safetensors file, a file saved by PyTorch, or a
/// checkpoint saved by TensorFlow, given by its prefix ("inception_v3.ckpt") or its index.
/// TensorFlow's weights are converted to libtorch's layout, as `checkpoint::to_torch_layout` says.
/// `slim::get_variables_to_restore(include, exclude)` selects variables, as the options do. Nothing
/// is assigned if any value does not match. TensorFlow: slim.assign_from_checkpoint; this function
/// also runs the assignment.
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

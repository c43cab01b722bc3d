#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/weights_layout.h"
#include "brigade/variables/variable.h"

namespace brigade::checkpoint {

/// Maps a variable's name to the name under which it is stored in the checkpoint.
///
/// Thread-safety: a value.
class Rename {
 public:
  /// The variable `variable` is stored as `stored`.
  static Rename name(std::string variable, std::string stored);
  /// Variables whose names begin with `variables` are stored with the prefix `stored` instead.
  static Rename prefix(std::string variables, std::string stored);
  /// Variables whose whole name matches the regular expression (ECMAScript) are stored as
  /// `replacement`, in which $1, $2, ... are its groups. Throws kInvalidArgument for an invalid
  /// regular expression.
  static Rename pattern(std::string expression, std::string replacement);

  /// The stored name of `variable`, or nothing if this rule does not match it.
  std::optional<std::string> apply(const std::string& variable) const;

 private:
  enum class Kind { kName, kPrefix, kPattern };
  Rename(Kind kind, std::string from, std::string to)
      : kind_(kind), from_(std::move(from)), to_(std::move(to)) {}
  Kind kind_;
  std::string from_, to_;
};

/// What to do with a variable that the checkpoint lacks.
enum class Missing {
  kRefuse,  ///< Throws kNotFound: `Checkpoint is missing variable [x]`. Nothing is assigned.
  kSkip,    ///< Leaves it unchanged, with a warning.
};

/// What to do with a stored tensor of another shape (TensorFlow: reshape_variables).
enum class Shapes {
  kEqual,    ///< Throws kInvalidArgument that names both shapes. Nothing is assigned.
  kReshape,  ///< Accepts it if it has as many elements.
};

/// Options of `restore_variables`: which variables get values, under which names, and what may
/// differ.
struct RestoreOptions {
  /// Only variables in these scopes (TensorFlow: slim's variables_to_restore); empty: all. A scope
  /// `net/conv1` holds `net/conv1` itself, `net/conv1/...` and `net/conv1....`, but not
  /// `net/conv10`. Throws kInvalidArgument if a scope holds no variable.
  std::vector<std::string> include;
  /// Variables in these scopes are left out.
  std::vector<std::string> exclude;
  /// The first rule that matches a variable applies; without one, it is stored under its own name
  /// or, if it is tied, under one of its aliases.
  std::vector<Rename> renames;
  /// What happens to a variable that the checkpoint lacks.
  Missing missing = Missing::kRefuse;
  /// What happens if a stored tensor has another shape than the variable.
  Shapes shapes = Shapes::kEqual;
  /// The layout of what is stored. Under kTensorFlow values are converted (`to_torch_layout`), and
  /// a variable stored as `x` may also be stored as `x/.ATTRIBUTES/VARIABLE_VALUE`. Files know
  /// their layout: `read_weights_file`.
  WeightsLayout layout = WeightsLayout::kTorch;
  /// Under kTensorFlow, the shape of the images whose flattened pixels a dense layer takes, by the
  /// name of its matrix: `{{"net/fc1/weights", {.channels = 64, .height = 7, .width = 7}}}`. Throws
  /// kInvalidArgument for a name that is not among the variables. Under kTorch nothing is
  /// converted.
  std::vector<std::pair<std::string, FlattenedImage>> flattened = {};
};

/// What `restore_variables` did.
struct RestoreReport {
  struct Restored {
    std::string variable;
    std::string stored;  ///< Its name in the checkpoint.
  };
  std::vector<Restored> restored;
  std::vector<std::string> missing_in_checkpoint;  ///< Variables that were left unchanged.
  std::vector<std::string> unused_in_checkpoint;   ///< Stored variables that were not requested.
};

/// Gives variables the values that a checkpoint holds under their names, whatever strategy and
/// however many replicas saved it: mirrored variables get the value in every component, on-read
/// variables with a sum aggregation get an equal part of the sum. Call it outside of replicas.
/// Everything is read and checked before the first variable changes. Optimizer slots are not
/// variables: take them from `Checkpoint::tensors(Section::kTensors)`. A partition of a variable
/// gets its part of the whole one that is stored, or a partition that is stored under its own name.
///
/// TensorFlow: Saver.restore, and with options init_from_checkpoint and slim's
/// assign_from_checkpoint. Throws as the options say; kInvalidArgument naming both for a tensor of
/// another dtype, and if there is no variable to restore; kDataLoss for a corrupt checkpoint. If
/// several variables do not fit, as with the weights of another architecture, one error lists the
/// first 20 of each kind, and what the checkpoint has instead.
RestoreReport restore_variables(const Checkpoint& checkpoint,
                                std::span<const variables::Variable> variables,
                                const RestoreOptions& options = {});

/// The same from tensors in memory (`read_safetensors`, `read_torch`); `source` names them in
/// messages.
RestoreReport restore_variables(std::span<const NamedTensor> tensors, std::string_view source,
                                std::span<const variables::Variable> variables,
                                const RestoreOptions& options = {});

}  // namespace brigade::checkpoint

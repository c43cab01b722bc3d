#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/variables/variable.h"

namespace brigade::checkpoint {

/// Says under which other name a variable lies in the checkpoint.
class Rename {
 public:
  /// The variable `variable` lies there as `stored`.
  static Rename name(std::string variable, std::string stored);
  /// Variables whose names begin with `variables` lie there with `stored` in its place.
  static Rename prefix(std::string variables, std::string stored);
  /// Variables whose whole name matches the regular expression (ECMAScript) lie there as
  /// `replacement`, in which $1, $2, ... are its groups. Throws kInvalidArgument for what is no
  /// regular expression.
  static Rename pattern(std::string expression, std::string replacement);

  /// The stored name of `variable`, or nothing if this rule says nothing about it.
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
  kSkip,    ///< Leaves it as it is, with a warning.
};

/// What to do with a stored tensor of another shape (TensorFlow: reshape_variables).
enum class Shapes {
  kEqual,    ///< Throws kInvalidArgument that names both shapes. Nothing is assigned.
  kReshape,  ///< Takes it if it has as many elements.
};

struct RestoreOptions {
  /// Only variables in these scopes (TensorFlow: slim's variables_to_restore); empty: all. A scope
  /// `net/conv1` holds `net/conv1` itself, `net/conv1/...` and `net/conv1....`, but not
  /// `net/conv10`. Throws kInvalidArgument if a scope holds no variable.
  std::vector<std::string> include;
  /// And none in these.
  std::vector<std::string> exclude;
  /// The first rule that fits a variable counts; without one, it lies there under its own name or,
  /// if it is tied, under one of its aliases.
  std::vector<Rename> renames;
  Missing missing = Missing::kRefuse;
  Shapes shapes = Shapes::kEqual;
};

struct RestoreReport {
  struct Restored {
    std::string variable;
    std::string stored;  ///< Its name in the checkpoint.
  };
  std::vector<Restored> restored;
  std::vector<std::string> missing_in_checkpoint;  ///< Variables that kept their values.
  std::vector<std::string> unused_in_checkpoint;   ///< Stored variables that nobody asked for.
};

/// Gives variables the values that a checkpoint holds under their names, whatever strategy and
/// however many replicas saved it: mirrored variables get the value in every component, on-read
/// ones that add up get their share of the sum. Call it outside of replicas. Everything is read and
/// checked before the first variable changes. Optimizer slots are not variables: take them from
/// `Checkpoint::tensors(Section::kTensors)`.
///
/// TensorFlow: Saver.restore, and with options init_from_checkpoint and slim's
/// assign_from_checkpoint. Throws as the options say; kInvalidArgument naming both for a tensor of
/// another dtype, and if there is no variable to restore; kDataLoss for a broken checkpoint.
RestoreReport restore_variables(const Checkpoint& checkpoint,
                                std::span<const variables::Variable> variables,
                                const RestoreOptions& options = {});

/// The same from tensors that lie in memory (`read_safetensors`, `read_torch`); `source` names them
/// in messages.
RestoreReport restore_variables(std::span<const NamedTensor> tensors, std::string_view source,
                                std::span<const variables::Variable> variables,
                                const RestoreOptions& options = {});

}  // namespace brigade::checkpoint

#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "brigade/io/state_tree.h"

namespace brigade::optim {

/// What an optimizer remembers, as a checkpoint holds it: nothing in it depends on where variables
/// live, how many replicas there are or how they are laid out.
struct SavedOptimizer {
  /// `<optimizer>/<slot>/<variable>`, in the variable's shape: "adam/exp_avg/conv1/weights".
  std::map<std::string, at::Tensor> slots;
  /// The rule's configuration, the learning rate, and how often each variable was updated.
  io::StateTree state;
};

/// What to do with a variable of which nothing was saved.
enum class MissingSlots {
  kRefuse,  ///< Throws kNotFound that names it.
  kSkip,    ///< Leaves its slots and its step as they are.
};

}  // namespace brigade::optim

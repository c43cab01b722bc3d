#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "brigade/io/state_tree.h"

namespace brigade::optim {

/// The state of an optimizer in a checkpoint. It does not depend on the variables' devices, the
/// number of replicas or the storage layout.
struct SavedOptimizer {
  /// `<optimizer>/<slot>/<variable>`, in the variable's shape: "adam/exp_avg/conv1/weights".
  std::map<std::string, at::Tensor> slots;
  /// The rule's configuration, the learning rate, and the number of updates of each variable.
  io::StateTree state;
};

/// What to do with a variable without saved state.
enum class MissingSlots {
  kRefuse,  ///< Throws kNotFound that names it.
  kSkip,    ///< Leaves its slots and its step unchanged.
};

}  // namespace brigade::optim

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/state_tree.h"

namespace brigade::optim {

/// A tensor that an optimizer keeps for every parameter, of the parameter's shape and dtype.
struct SlotSpec {
  std::string name;  ///< as in checkpoints: "exp_avg"
  double initial = 0.0;
};

/// What may differ from parameter group to parameter group, and from step to step.
struct Hyperparameters {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
};

/// One call's work: any number of ranges of parameters with their gradients and slots, all at the
/// same step. Ranges may be whole parameters, pieces of one, or pieces that span several.
struct UpdateArguments {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;  ///< as parameters: same count, shapes, dtypes and devices
  std::vector<std::vector<at::Tensor>> slots;  ///< [slot as in slots()][range]
  std::int64_t step = 1;                       ///< this update's number, from 1
};

/// How parameters change, as a pure function: the same rule serves a mirrored replica's share, a
/// controller that holds all variables, and a parameter server. It holds its configuration and
/// nothing else; slots and step belong to the caller. Elementwise, so results do not depend on how
/// the parameters are cut into ranges; their last bits do not as long as cuts lie at multiples of
/// 64 bytes (libtorch's kernels round what does not fill a vector at the end of a range
/// differently).
///
/// Thread-safety: const calls on disjoint ranges may run at the same time.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string_view name() const = 0;
  virtual const std::vector<SlotSpec>& slots() const = 0;
  /// The rates that apply where a parameter group does not say otherwise.
  virtual Hyperparameters defaults() const = 0;
  /// Updates parameters and slots in place. Nothing may require grad in the caller's thread mode.
  virtual void apply(const UpdateArguments& arguments,
                     const Hyperparameters& hyperparameters) const = 0;
  /// The configuration as data, for manifests and logs.
  virtual io::StateTree config() const = 0;
};

using UpdateRulePtr = std::shared_ptr<const UpdateRule>;

}  // namespace brigade::optim

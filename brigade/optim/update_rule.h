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

/// The arguments that may differ between parameter groups and between steps.
struct Hyperparameters {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  /// For rules that scale the rate by norms of variables (`Lars`): whether they do.
  bool layer_adaptation = true;
};

/// The number of an update and its learning rate as float32 scalars on the parameters' device,
/// which the update reads there: the host needs not know them when the update is queued, and a
/// captured update uses those of its replay. Undefined: they are on the host.
struct DeviceScalars {
  at::Tensor step;  ///< from 1
  at::Tensor rate;
};

/// The arguments of one call: any number of ranges of parameters with their gradients and slots,
/// all at the same step. A range may be a whole parameter, a part of one, or span several, unless
/// the rule needs whole variables.
struct UpdateArguments {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;  ///< as parameters: same count, shapes, dtypes and devices
  std::vector<std::vector<at::Tensor>> slots;  ///< [slot as in slots()][range]
  std::int64_t step = 1;                       ///< this update's number, from 1
  /// If defined, they count instead of `step` and of `Hyperparameters::learning_rate`.
  DeviceScalars on_device = {};
};

/// What a rule does if only some rows of a parameter have a gradient, and only these are updated
/// (`apply_rows`).
enum class RowUpdates {
  /// The same as with zeros for the gradients of the other rows, which change nothing; unless there
  /// is weight decay, which only the rows with a gradient then have.
  kExact,
  /// With zeros the other rows would change, too: by a momentum, or by averages of gradients that
  /// fade. Lazily they stay as they are until their next gradient, as in TensorFlow's LazyAdam and
  /// PyTorch's SparseAdam. Updating all rows would cost as much as the table is long.
  kLazy
};

/// The update of parameters, as a pure function: the same rule is used for a mirrored replica's
/// shard, for a controller that holds all variables, and for a parameter server. It holds only its
/// configuration; slots and step belong to the caller. It is elementwise: an element gets the same
/// bits however parameters are divided into ranges (`update_in_whole_vectors`). The exception is a
/// rule that needs whole variables, for their norms.
///
/// Thread-safety: const calls on disjoint ranges may run at the same time.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string_view name() const = 0;
  virtual const std::vector<SlotSpec>& slots() const = 0;
  /// The default rates, for parameter groups without their own.
  virtual Hyperparameters defaults() const = 0;
  virtual RowUpdates row_updates() const { return RowUpdates::kLazy; }
  /// Whether each range of `apply` must be one whole variable. `OptimizerState` then makes a run of
  /// each variable, and refuses parts of variables; there are no row updates.
  virtual bool needs_whole_variables() const { return false; }
  /// Updates parameters and slots in place, and only reads the gradients, which others may read at
  /// the same time. The calling thread must not record gradients.
  virtual void apply(const UpdateArguments& arguments,
                     const Hyperparameters& hyperparameters) const = 0;
  /// The configuration as data, for manifests and logs.
  virtual io::StateTree config() const = 0;
};

using UpdateRulePtr = std::shared_ptr<const UpdateRule>;

}  // namespace brigade::optim

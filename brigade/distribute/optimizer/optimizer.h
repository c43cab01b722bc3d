#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/distribute/optimizer/gradient_parts.h"
#include "brigade/distribute/optimizer/gradient_scaler.h"
#include "brigade/distribute/optimizer/gradients.h"
#include "brigade/distribute/optimizer/objective.h"
#include "brigade/distribute/optimizer/step_loss.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/optim/optimizer_state.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {

class ReplicaContext;
class SubtreeSums;

/// Options of `Strategy::optimizer`, for every update rule. The defaults make one update of all
/// trainable variables in each step.
struct OptimizerOptions {
  /// Groups of variables that have a separate learning rate or are frozen. A variable belongs to
  /// the first group that matches its name.
  std::vector<optim::ParameterGroup> groups;
  /// How many calls of `minimize` make one update. Each replica accumulates the gradients of that
  /// many micro-batches, in one more buffer of the parameters' size, and they are reduced once. The
  /// update is the same as for all micro-batches in one batch, weighted exactly by examples however
  /// uneven they are. Call `flush` after the last batch.
  int accumulate = 1;
  /// An int64 variable that counts updates (not micro-batches). Every replica counts in its own
  /// component, so nothing is sent; if workers without collectives count together
  /// (`Strategy::global_step`), each update sets it to the job's number. TensorFlow: the
  /// global_step argument of minimize and apply_gradients.
  std::optional<variables::Variable> global_step = std::nullopt;
  /// Scales the loss for backward in float16 (`Strategy::set_precision`). If a gradient overflows
  /// in any replica, all leave the update out: variables, slots, the update ops of layers and the
  /// numbers of updates do not change, and neither do schedules and averages of weights that follow
  /// `is_update_step` or the global step. The scale is saved with the optimizer. It costs one more
  /// exchange of a number between the replicas, and gradients are not reduced during backward. Not
  /// for parameter servers with synchronous steps (kUnimplemented), to which every worker owes
  /// gradients. PyTorch: torch.amp.GradScaler.
  std::optional<GradientScalerOptions> gradient_scaler = std::nullopt;
};

/// Trains a strategy's variables: computes the gradients of each replica's loss, reduces them over
/// the replicas, and updates the variables. Made by `Strategy::optimizer`. It is a handle: copies
/// refer to the same optimizer.
///
/// `minimize`, `aggregate` and `apply_gradients` are collectives: in each step every replica makes
/// the same calls, even if its per-replica batch is empty. With accumulation, only the last
/// `minimize` of a group of micro-batches waits for the other replicas.
///
/// Thread-safety: each replica from its own thread; the rest outside of `run`, from one thread.
class Optimizer {
 public:
  /// For strategies. Throws kInvalidArgument if `accumulate` is less than 1 or `global_step` is not
  /// a single int64 that is not trained.
  /// `subtree_sums`: for replicas of which several have one device; null for others.
  Optimizer(std::shared_ptr<optim::OptimizerState> state,
            std::shared_ptr<GradientSynchronizer> synchronizer, const OptimizerOptions& options,
            StrategyRef owner, std::shared_ptr<SubtreeSums> subtree_sums = nullptr);

  /// Makes one update that decreases `loss`: `apply_gradients(compute_gradients(loss, scale))`.
  /// With accumulation it adds one micro-batch, and every N-th call updates. Throws what those two
  /// throw. Returns the loss, for `Strategy::reduce_loss`.
  ///
  /// `report`: what the result has in place of the loss, of any shape, such as the loss and its
  /// parts: means over this replica's examples, or sums, as `scale` says.
  StepLoss minimize(const at::Tensor& loss, LossScale scale = LossScale::kMeanOverExamples,
                    const at::Tensor& report = {}) const;

  /// Returns this replica's part of the gradient, weighted according to `scale`, so that the sum of
  /// all replicas' parts is the gradient of the global batch. A replica without examples gets no
  /// gradients and runs no backward pass. Throws kFailedPrecondition outside a replica and in a
  /// replica of another strategy, for a loss without a graph, for a `scale` other than the first
  /// one declared, for a scalar mean whose number of examples is not known, and if other code
  /// changed a parameter in place or its `requires_grad`; kInvalidArgument if the first dimension
  /// of the loss is not the number of examples.
  ///
  /// `loss` is a scalar, the mean over this replica's examples, or has a value per example, [N]. Of
  /// a loss [N, ...], such as one value per pixel, each example counts with the mean of its values.
  ///
  /// The updates collected by the layers of this pass (`Graph::update_ops`: batch norm's moving
  /// statistics), which TensorFlow leaves to the caller, run with the next update in this replica,
  /// or at the end of its step if the gradients are applied elsewhere. If the step fails before
  /// that, they do not run.
  Gradients compute_gradients(const at::Tensor& loss,
                              LossScale scale = LossScale::kMeanOverExamples,
                              const at::Tensor& report = {}) const;

  /// Returns the sum over the replicas, equal in each: what one replica would compute for the
  /// global batch, with its loss. Clip these gradients. Throws kFailedPrecondition if they are
  /// aggregated already; kInvalidArgument, naming the variable, for a gradient of another shape,
  /// dtype or device than its variable's, and for another optimizer's gradients.
  Gradients aggregate(const Gradients& gradients) const;

  /// Updates the variables immediately; micro-batches that `minimize` has accumulated are not
  /// applied. Local gradients are aggregated first; aggregated ones are applied as they are and
  /// must be equal in every replica. Returns their loss. Throws kFailedPrecondition for gradients
  /// of another step, and kInvalidArgument as `aggregate` does.
  ///
  /// Outside replicas one call updates every replica's variables. It takes only aggregated
  /// gradients (`average_gradients`) and throws kFailedPrecondition for others.
  StepLoss apply_gradients(const Gradients& gradients) const;

  /// Applies the micro-batches of an incomplete group, so that the last batches of the data count
  /// too; does nothing if there are none. Call it outside `run` when the data ends, or, as a
  /// collective, inside it.
  void flush() const;
  /// Discards the micro-batches of an incomplete group, after a step that failed or when weights
  /// are restored. Outside `run` only.
  void discard() const;

  /// Whether the latest call of `minimize` made an update. In a replica it refers to that replica,
  /// outside to replica 0; after a run all replicas agree.
  bool is_update_step() const { return micro_batches() == 0 && !was_skipped(); }
  /// Whether the latest update was left out because its gradients overflowed
  /// (`OptimizerOptions::gradient_scaler`).
  bool was_skipped() const;
  /// How many updates were left out since this optimizer was made.
  std::int64_t skipped_updates() const;
  /// By how much the next loss is scaled; 1 without a gradient scaler.
  double gradient_scale() const;
  /// How many micro-batches are accumulated and not applied yet.
  int micro_batches() const;
  /// The number of updates since this optimizer was made, by any call; the job's number, if workers
  /// without collectives count together.
  std::int64_t updates() const;

  /// The learning rate of the update rule; groups with a separate rate keep theirs. Outside `run`
  /// only.
  double learning_rate() const { return state_->learning_rate(); }
  void set_learning_rate(double rate) const;

  const optim::OptimizerState& state() const { return *state_; }
  /// `OptimizerOptions::global_step`.
  const std::optional<variables::Variable>& global_step() const;
  /// Its value, which must exist. A device is asked only after others than this optimizer have
  /// changed it. Outside `run` only.
  std::int64_t global_step_value() const;

  /// For compiled steps: `OptimizerState::follow_host`.
  void update_device_counters(int replica) const { state_->follow_host(replica); }

  /// A handle that does not keep the optimizer in existence. For strategies.
  class Weak;

  /// What a checkpoint has of the optimizer: `state().save(name)`, and the gradient scaler's state.
  optim::SavedOptimizer save(std::string_view name) const;
  /// Restores what `save(name)` returned (see `OptimizerState::restore`), and discards accumulated
  /// micro-batches. A gradient scaler whose state was not saved stays as it is. Outside `run` only.
  std::vector<std::string> restore(
      std::string_view name, const optim::SavedOptimizer& saved,
      optim::MissingSlots missing = optim::MissingSlots::kRefuse) const;

 private:
  struct Shared;
  Optimizer(std::shared_ptr<optim::OptimizerState> state, std::shared_ptr<Shared> shared)
      : state_(std::move(state)), shared_(std::move(shared)) {}
  /// What becomes of gradients. Those that are applied unchanged may be reduced during backward.
  enum class GradientUse { kApplied, kAccumulated, kReturned };
  /// In memory order, as all gradients inside of this class. Those that are returned to the program
  /// are computed.
  ReplicaGradients local_gradients(const ReplicaContext& context, const Objective& objective,
                                   GradientUse use) const;
  ReplicaGradients backward(const ReplicaContext& context, const at::Tensor& loss, double weight,
                            GradientUse use) const;
  ReplicaGradients differentiate(const ReplicaContext& context, const at::Tensor& loss,
                                 double weight, GradientUse use) const;
  bool may_defer(const ReplicaContext& context, GradientUse use) const;
  void check_own(const Gradients& gradients) const;
  /// Returns `loss`, with that of the global batch if it came with the gradients.
  StepLoss apply_in(const ReplicaContext& context, ReplicaGradients gradients, GradientState state,
                    StepLoss loss = {}) const;
  void capture_in(const ReplicaContext& context, std::span<const at::Tensor> values,
                  GradientState state) const;
  void count_replay(const optim::CapturedUpdate& captured) const;
  void skip_in(int replica) const;
  void apply_outside(GradientState state, std::span<const at::Tensor> values) const;
  StepLoss apply_accumulated(const ReplicaContext& context, StepLoss loss = {}) const;
  void apply_all_accumulated() const;
  std::shared_ptr<optim::OptimizerState> state_;
  std::shared_ptr<Shared> shared_;
};

class Optimizer::Weak {
 public:
  explicit Weak(const Optimizer& optimizer)
      : state_(optimizer.state_), shared_(optimizer.shared_) {}
  /// Nothing if the optimizer does not exist any more.
  std::optional<Optimizer> lock() const {
    auto state = state_.lock();
    auto shared = shared_.lock();
    if (!state || !shared) return std::nullopt;
    return Optimizer(std::move(state), std::move(shared));
  }

 private:
  std::weak_ptr<optim::OptimizerState> state_;
  std::weak_ptr<Shared> shared_;
};

}  // namespace brigade::distribute

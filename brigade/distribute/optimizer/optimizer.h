#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/distribute/optimizer/gradients.h"
#include "brigade/distribute/optimizer/loss_scale.h"
#include "brigade/distribute/owning_strategy.h"
#include "brigade/optim/optimizer_state.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {

class ReplicaContext;

struct OptimizerOptions {
  /// Variables with rates of their own, or frozen; the first group that matches a variable's name
  /// has it.
  std::vector<optim::ParameterGroup> groups;
  /// How many calls of `minimize` make one update: the gradients of that many micro-batches are
  /// gathered in each replica, at the price of one more buffer of the parameters' size, and meet
  /// once. The update is the one that the micro-batches would give in one batch, exactly weighted
  /// by examples however uneven they are. Call `flush` behind the last batch.
  int accumulate = 1;
  /// An int64 variable that counts updates (not micro-batches), in every replica by itself. Its
  /// components are the replicas' own, so nothing is sent. TensorFlow: the global_step argument of
  /// minimize and apply_gradients.
  std::optional<variables::Variable> global_step = std::nullopt;
};

/// An optimizer at work on a strategy's variables: takes each replica's loss, makes the gradients
/// meet, and updates. Made by `Strategy::optimizer`. A handle: copies are the same optimizer.
///
/// `minimize`, `aggregate` and `apply_gradients` are collectives: in each step every replica makes
/// the same calls, also one whose share of the batch is empty. Of a group of accumulated
/// micro-batches only the last call of `minimize` waits for the others.
///
/// Thread-safety: each replica from its own thread; the rest outside of `run`, from one thread.
class Optimizer {
 public:
  /// For strategies. Throws kInvalidArgument if `accumulate` is less than 1 or `global_step` is not
  /// a single int64 that is not trained.
  Optimizer(std::shared_ptr<optim::OptimizerState> state, std::shared_ptr<GradientSynchronizer> synchronizer,
            const OptimizerOptions& options, OwningStrategy owner);

  /// One step down the gradient of `loss`: `apply_gradients(compute_gradients(loss, scale))`. With
  /// accumulation one micro-batch's part of it; every N-th call updates. Throws as those two.
  void minimize(const at::Tensor& loss, LossScale scale = LossScale::kMeanOverExamples) const;

  /// This replica's part of the gradient, weighted as `scale` says, so that the replicas' parts add
  /// up to the whole. A replica without examples gets no gradients and runs no backward pass.
  /// Throws kFailedPrecondition outside of a replica and in one of another strategy, for a loss
  /// without a graph, for a `scale` other than the first one declared, for a scalar mean where the
  /// number of examples is not known, and if other code changed a parameter in place or its
  /// `requires_grad`; kInvalidArgument if the loss has not
  /// one value an example.
  ///
  /// The updates that the layers of this pass have collected (`Graph::update_ops`: batch norm's
  /// moving statistics), which TensorFlow leaves to the caller and many forget, run with the next
  /// update in this replica, or at the end of its step if the gradients are applied elsewhere. A
  /// step that fails before runs none.
  Gradients compute_gradients(const at::Tensor& loss,
                              LossScale scale = LossScale::kMeanOverExamples) const;

  /// The sum over the replicas, the same in each: what one replica would get for the whole batch.
  /// Clip here. Throws kFailedPrecondition if they are aggregated already; kInvalidArgument, naming
  /// the variable, for a gradient of another shape, dtype or device than its variable's, and for
  /// another optimizer's gradients.
  Gradients aggregate(const Gradients& gradients) const;

  /// Updates the variables, at once: what `minimize` has gathered is left alone. Local gradients
  /// are aggregated on the way; aggregated ones are taken as they are and must be the same in every
  /// replica. Throws kFailedPrecondition for gradients of another step, and kInvalidArgument as
  /// `aggregate`.
  ///
  /// Outside of replicas, where one call updates every replica's variables, only aggregated ones
  /// (`average_gradients`) have a meaning: others are kFailedPrecondition.
  void apply_gradients(const Gradients& gradients) const;

  /// Updates with what an unfinished group has gathered, so that the last batches of the data count
  /// too; nothing if there is none. Call it outside of `run` when the data ends, or, as a
  /// collective, in it.
  void flush() const;
  /// Forgets what an unfinished group has gathered, after a step that failed or when weights are
  /// restored. Outside of `run` only.
  void discard() const;

  /// Whether the latest call of `minimize` made an update: what counts updates asks behind it. In a
  /// replica its own, outside replica 0's, which are the same after a run.
  bool is_update_step() const { return micro_batches() == 0; }
  /// How many micro-batches are gathered and not applied yet.
  int micro_batches() const;
  /// Updates made since this optimizer was made, by whichever call.
  std::int64_t updates() const;

  /// The base rate of the rule; groups with a rate of their own keep it. Outside of `run` only.
  double learning_rate() const { return state_->learning_rate(); }
  void set_learning_rate(double rate) const;

  const optim::OptimizerState& state() const { return *state_; }

  /// Puts back what `state().save(name)` gave (see `OptimizerState::restore`), and forgets what was
  /// gathered. Outside of `run` only.
  std::vector<std::string> restore(
      std::string_view name, const optim::SavedOptimizer& saved,
      optim::MissingSlots missing = optim::MissingSlots::kRefuse) const;

 private:
  struct Shared;
  /// Whether gradients are told of while backward goes on: they will be applied as they are.
  enum class EagerReduction { kNo, kYes };
  Gradients gradients_of(const at::Tensor& loss, LossScale scale, EagerReduction eager) const;
  std::vector<at::Tensor> backward(int replica, const at::Tensor& loss, double weight,
                                   EagerReduction eager) const;
  void check_own(const Gradients& gradients) const;
  void apply_in(int replica, std::span<const at::Tensor> values, GradientState state) const;
  void apply_outside(GradientState state, std::span<const at::Tensor> values) const;
  void apply_accumulated(const ReplicaContext& context) const;
  void apply_all_accumulated() const;
  std::shared_ptr<optim::OptimizerState> state_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace brigade::distribute

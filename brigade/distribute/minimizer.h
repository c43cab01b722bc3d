#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>
#include <vector>

#include "brigade/distribute/gradients.h"
#include "brigade/optim/optimizer_state.h"

namespace brigade::distribute {

/// What the loss that a replica hands to `minimize` stands for, and so what the gradients are
/// divided by. Declared once: the first call of a minimizer binds all later ones, in every replica.
enum class LossScale {
  /// A mean over the replica's own examples (a scalar), or one value for each of them. The gradient
  /// is the exact mean
  /// over the global batch, however uneven the shares: each replica counts by its examples, an
  /// empty one not at all.
  kMeanOverExamples,
  /// A sum over the replica's examples, or one value for each: the gradient is that of the sum over
  /// the global batch.
  kSum,
  /// Divided by the global batch size already (`compute_average_loss`): replicas' gradients are
  /// added, nothing else.
  kAlreadyScaled,
};

std::string_view to_string(LossScale scale);

struct MinimizerOptions {
  /// Variables with rates of their own, or frozen; the first group that matches a variable's name
  /// has it.
  std::vector<optim::ParameterGroup> groups;
};

/// An optimizer at work on a strategy's variables: takes each replica's loss, makes the gradients
/// meet, and updates. Made by `Strategy::minimizer`. A handle: copies are the same optimizer.
///
/// `minimize`, `aggregate` and `apply_gradients` are collectives: in each step every replica makes
/// the same calls, also one whose share of the batch is empty.
///
/// Thread-safety: each replica from its own thread; the rest outside of `run`, from one thread.
class Minimizer {
 public:
  Minimizer(std::shared_ptr<optim::OptimizerState> state, std::unique_ptr<GradientApplier> applier);

  /// One step down the gradient of `loss`: `apply_gradients(compute_gradients(loss, scale))`.
  void minimize(const at::Tensor& loss, LossScale scale = LossScale::kMeanOverExamples) const;

  /// This replica's part of the gradient, weighted as `scale` says, so that the replicas' parts add
  /// up to the whole. A replica without examples gets no gradients and runs no backward pass.
  /// Throws kFailedPrecondition outside of a replica, for a loss without a graph, for a `scale`
  /// other than the first one declared, for a scalar mean where the number of examples is not
  /// known, and if other code changed a parameter in place; kInvalidArgument if the loss has not
  /// one value an example.
  Gradients compute_gradients(const at::Tensor& loss,
                              LossScale scale = LossScale::kMeanOverExamples) const;

  /// The sum over the replicas, the same in each: what one replica would get for the whole batch.
  /// Clip here. Throws kFailedPrecondition if they are aggregated already.
  Gradients aggregate(const Gradients& gradients) const;

  /// Updates the variables. Local gradients are aggregated on the way; aggregated ones are taken as
  /// they are and must be the same in every replica. Throws kFailedPrecondition for gradients of
  /// another step.
  void apply_gradients(const Gradients& gradients) const;

  /// The base rate of the rule; groups with a rate of their own keep it. Outside of `run` only.
  double learning_rate() const { return state_->learning_rate(); }
  void set_learning_rate(double rate) const;

  const optim::OptimizerState& state() const { return *state_; }

 private:
  struct Shared;
  std::shared_ptr<optim::OptimizerState> state_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace brigade::distribute

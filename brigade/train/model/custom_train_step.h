#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/input/named_tensors.h"
#include "brigade/train/model/model_batch.h"

namespace brigade::train {

namespace internal {
class Trainer;
}  // namespace internal

/// What a training step of your own (`CustomTrainStep`) works with: the replica, the model's
/// optimizer and network, and what `Model::compile` was given. Valid until the step returns.
///
/// Thread-safety: the replica's thread.
class TrainStepContext {
 public:
  TrainStepContext(distribute::ReplicaContext& replica, const internal::Trainer& trainer)
      : replica_(replica), trainer_(trainer) {}

  distribute::ReplicaContext& replica() const { return replica_; }
  const distribute::Optimizer& optimizer() const;

  /// The forward pass, in training mode. The first is for networks with one input and one output;
  /// it throws kInvalidArgument for others.
  at::Tensor forward(const at::Tensor& input) const;
  input::NamedTensors forward(const input::NamedTensors& inputs) const;

  /// The loss as `compile` says, weighted by the batch's sample weights: one value per example, or
  /// a scalar if that is what the losses return, plus the losses that layers have added
  /// (regularization). Throws kFailedPrecondition if `compile` was given no loss. Keras:
  /// compute_loss.
  at::Tensor compute_loss(const ModelBatch& batch, const at::Tensor& output) const;
  at::Tensor compute_loss(const ModelBatch& batch, const input::NamedTensors& outputs) const;

  /// Adds to the metrics that `compile` was given. Keras: compute_metrics.
  void update_metrics(const ModelBatch& batch, const at::Tensor& output) const;
  void update_metrics(const ModelBatch& batch, const input::NamedTensors& outputs) const;

 private:
  distribute::ReplicaContext& replica_;
  const internal::Trainer& trainer_;
};

/// A training step of your own for `Model::fit`, which keeps its epochs, callbacks, hooks and
/// checkpoints: for several losses with separate updates, gradients that are clipped or penalized,
/// distillation. Keras: overriding Model.train_step.
///
///   model.compile({.optimizer = "adam", .loss = "mse", .metrics = {"mae"},
///                  .train_step = CustomTrainStep(
///                      {"loss", "penalty", "mae"},
///                      [](TrainStepContext& step, const ModelBatch& batch) {
///                        const at::Tensor output = step.forward(batch.input());
///                        const at::Tensor loss = step.compute_loss(batch, output);
///                        const at::Tensor penalty = output.square().mean(1);
///                        step.optimizer().minimize(loss + 0.1 * penalty);
///                        step.update_metrics(batch, output);
///                        return input::NamedTensors({{"loss", loss}, {"penalty", penalty}});
///                      })});
///
/// It runs once per step in each replica, on the replica's part of the batch, also if that is
/// empty: all replicas make the same updates and collectives. It is called by the replicas at the
/// same time, so it must not change what it captures. Evaluation is as without it, and needs a
/// loss.
///
/// The constructor takes the names of the logs of training: metrics given to `compile` (which the
/// step updates, see `update_metrics`), and all other names that the step returns. It returns one
/// value per example, [N], or their mean, a scalar, of which logs are the exact means over
/// examples. "loss" is what callbacks show, if there is one.
///
/// Other optimizers: make them with `Strategy::make_optimizer`, and add them to checkpoints with
/// `FitContext::state` in a callback's `on_train_begin`.
///
/// Thread-safety: a value; a call is as thread-safe as the function.
class CustomTrainStep {
 public:
  using Function = std::function<input::NamedTensors(TrainStepContext&, const ModelBatch&)>;

  template <class StepFunction>
  CustomTrainStep(std::vector<std::string> logs, StepFunction step) : logs_(std::move(logs)) {
    constexpr bool fits = std::is_invocable_r_v<input::NamedTensors, const StepFunction&,
                                                TrainStepContext&, const ModelBatch&>;
    static_assert(
        fits,
        "A training step of your own must take (TrainStepContext&, const ModelBatch&) and "
        "return the values for the logs as NamedTensors.");
    if constexpr (fits) function_ = std::move(step);
  }

  const std::vector<std::string>& logs() const { return logs_; }
  const Function& function() const { return function_; }

 private:
  std::vector<std::string> logs_;
  Function function_;
};

}  // namespace brigade::train

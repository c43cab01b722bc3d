#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/data/dataset.h"
#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/split.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/input/to_device.h"
#include "brigade/io/state_tree.h"
#include "brigade/layers/arg_scope.h"
#include "brigade/optim/parameter_group.h"
#include "brigade/optim/update_rule.h"
#include "brigade/slim/loss_check.h"
#include "brigade/variables/variable.h"

namespace brigade::slim {

/// What to do with the update ops of a pass (moving statistics of batch norm).
enum class UpdateOps {
  kRun,                ///< run those of every replica; reads return the mean
  kRunInFirstReplica,  ///< run those of replica 0 for all: the moving statistics are those of its
                       ///< batches
  kSkip                ///< run none
};

struct TrainOpOptions {
  /// The maximum norm of each variable's gradient; larger gradients are scaled down. 0: no limit.
  double clip_gradient_norm = 0.0;
  /// Factors for the gradients of variables, by name: 10 for a new last layer, 0.1 for pretrained
  /// variables.
  std::map<std::string, double> gradient_multipliers = {};
  /// Scopes whose variables are trained: variables whose names start with one of them. Empty: all
  /// trainable variables that were created by name in the strategy, even if the loss does not
  /// depend on them (these have slots, but do not change).
  std::vector<std::string> variables_to_train = {};
  /// Whether a step with a total loss that is not finite throws, on CPUs before it changes
  /// anything. On GPUs the host does not wait for the loss of each step: the error comes when the
  /// check is due, or the loss is read (`TrainOp::check_numerics`), and names the step; later
  /// updates are made.
  bool check_numerics = true;
  /// On GPUs the check is due in every step with a multiple of this. At least 1.
  std::int64_t check_numerics_every = 100;
  /// What becomes of the updates that layers collect (`Graph::update_ops`): batch norm's moving
  /// statistics.
  UpdateOps update_ops = UpdateOps::kRun;
  /// How the total losses of replicas are combined. Regularization losses count once under
  /// kMeanOverExamples; under the others the loss function must ensure this.
  distribute::LossScale loss_scale = distribute::LossScale::kMeanOverExamples;
  /// An int64 variable that counts updates. Unset: "global_step", created if necessary.
  std::optional<variables::Variable> global_step = std::nullopt;
  /// Whether a step increments the global step.
  bool count_steps = true;
  /// Groups of variables with separate learning rates; see distribute::OptimizerOptions.
  std::vector<optim::ParameterGroup> groups = {};
  /// Multiplies the total loss whose gradients are computed, not the one that is returned.
  double gradient_weight = 1.0;
};

/// Functions that save and restore the position in the data (see data::Iterator). Both are empty if
/// the data has no position.
///
/// Thread-safety: as the data.
struct DataPosition {
  std::function<io::StateTree()> save = {};
  std::function<void(const io::StateTree&)> restore = {};
  explicit operator bool() const { return save && restore; }
};

/// A queue of batches, split for the replicas. The front batch stays until `pop`, so that the first
/// pass, which creates the variables, can read it, and a failed step can be retried with it.
///
/// Thread-safety: one thread.
template <class B>
class ReplicaBatchQueue {
 public:
  using ReplicaBatches = distribute::PerReplica<B>;

  /// `next` returns the next batch, or nothing at the end; `position` saves and restores its
  /// position.
  explicit ReplicaBatchQueue(std::function<std::optional<ReplicaBatches>()> next,
                             DataPosition position = {})
      : next_(std::move(next)), position_(std::move(position)) {}

  /// The front batch; null at the end of the data.
  const ReplicaBatches* front() {
    if (front_) return &*front_;
    if (position_) before_ = position_.save();
    front_ = next_();
    return front_ ? &*front_ : nullptr;
  }
  void pop() { front_.reset(); }

  /// The first replica's part of the front batch. Throws kOutOfRange at the end of the data.
  const B& first_replica_batch() {
    if (front() == nullptr)
      throw Error(ErrorCode::kOutOfRange, "The training data is empty: it has no batch.");
    return (*front_)[0];
  }

  bool has_position() const { return static_cast<bool>(position_); }
  /// The position before the front batch. Throws kFailedPrecondition if the data has no position.
  io::StateTree save() const {
    check_state(has_position(), "This data has no position to save.");
    return front_ ? before_ : position_.save();
  }
  void restore(const io::StateTree& state) {
    check_state(has_position(), "This data has no position to restore.");
    position_.restore(state);
    front_.reset();
  }

 private:
  std::function<std::optional<ReplicaBatches>()> next_;
  DataPosition position_;
  std::optional<ReplicaBatches> front_;
  io::StateTree before_;  // the position before the front batch
};

/// A queue over one pass through a dataset.
template <class B>
std::shared_ptr<ReplicaBatchQueue<B>> make_replica_batch_queue(
    const distribute::DistributedDataset<B>& dataset) {
  auto iterator = std::make_shared<distribute::DistributedIterator<B>>(dataset.iterator());
  return std::make_shared<ReplicaBatchQueue<B>>(
      [iterator] { return iterator->next(); },
      DataPosition{
          .save = [iterator] { return iterator->save(); },
          .restore = [iterator](const io::StateTree& state) { iterator->restore(state); }});
}

/// Calls `pass`, the first pass of a model, outside of replicas: its variables are created or
/// reused, and stored in flat buffers; everything else that it collects is dropped. Throws
/// kFailedPrecondition inside a replica, and the errors of `pass`.
void run_first_pass(distribute::Strategy& strategy, const std::function<void()>& pass);

/// The part of a `TrainOp` that is independent of the batch type: from a replica's total loss to
/// the update. For `create_train_op` and `model_deploy`, which programs use.
///
/// Thread-safety: `run` is called on the replicas' threads, everything else outside of them.
class TrainStep {
 public:
  /// The variables must exist: see `run_first_pass`. Throws as `create_train_op`.
  TrainStep(distribute::Strategy& strategy, optim::UpdateRulePtr rule, TrainOpOptions options);

  /// In a replica: computes the total loss and its gradients, and makes the update. A collective.
  distribute::StepLoss run(const distribute::ReplicaContext& context,
                           const std::function<at::Tensor()>& total_loss) const;

  /// After `run`, outside of replicas: combines the losses of all replicas. Throws kDataLoss as
  /// `check_numerics`, where that is due.
  at::Tensor finish(const distribute::PerReplica<distribute::StepLoss>& losses) const;
  /// Throws kDataLoss if a loss since the last check was not finite; on GPUs it waits for the last
  /// one. Outside of replicas.
  void check_numerics() const { loss_check_->check(); }

  distribute::Strategy& strategy() const { return *strategy_; }
  const variables::Variable& global_step() const { return global_step_; }
  /// Its value; a device is asked only if others than this step's optimizer count it. Outside of
  /// replicas.
  std::int64_t global_step_value() const;
  bool count_steps() const { return options_.count_steps; }
  const std::vector<variables::Variable>& variables() const { return trained_; }
  const distribute::Optimizer& optimizer() const { return optimizer_; }

 private:
  void check_loss(const distribute::ReplicaContext& context, const at::Tensor& loss) const;
  distribute::Gradients transform_gradients(const distribute::Gradients& local) const;

  distribute::Strategy* strategy_;
  TrainOpOptions options_;
  layers::CapturedArgScope defaults_;  // of layers, where the train op was created
  variables::Variable global_step_;
  std::vector<variables::Variable> trained_;
  std::vector<variables::Variable> statistics_;  // of replica 0 only, for all
  distribute::Optimizer optimizer_;
  std::unique_ptr<LossCheck> loss_check_;  // of losses on GPUs
};

/// A training step that can be called repeatedly: it takes a batch, computes the replicas' total
/// losses and gradients, and makes one update. Created by `create_train_op`. A handle: copies refer
/// to the same train op.
///
/// If a step fails before the update, the next call uses the same batch again.
///
/// Thread-safety: one thread, outside of replicas.
class TrainOp {
 public:
  using Run = std::function<std::optional<distribute::PerReplica<distribute::StepLoss>>()>;
  /// For `create_train_op`: `run` makes the replicas' steps on the next batch, `position` saves and
  /// restores the position in the data.
  TrainOp(std::shared_ptr<const TrainStep> step, Run run, DataPosition position = {})
      : step_(std::move(step)), run_(std::move(run)), position_(std::move(position)) {}

  /// Makes a step. Returns the total loss, a scalar on the first replica's device (over several
  /// replicas the mean over all examples, or the sum, depending on the loss scale), or nothing at
  /// the end of the data. Throws the errors of replicas, and kDataLoss for a loss that is not
  /// finite.
  std::optional<at::Tensor> operator()() const {
    const auto losses = run_();
    if (!losses) return std::nullopt;
    return step_->finish(*losses);
  }

  /// Throws kDataLoss, naming the step, if a loss on GPUs was not finite since the last check. Call
  /// it when the loss is read, which waits for the GPU anyway; `learning::train` does. On CPUs each
  /// step checks its own loss.
  void check_numerics() const { step_->check_numerics(); }
  /// The number of updates made.
  std::int64_t global_step() const { return step_->global_step_value(); }
  bool count_steps() const { return step_->count_steps(); }
  const variables::Variable& global_step_variable() const { return step_->global_step(); }
  /// The trained variables, in the order of their creation.
  const std::vector<variables::Variable>& variables() const { return step_->variables(); }
  const distribute::Optimizer& optimizer() const { return step_->optimizer(); }
  distribute::Strategy& strategy() const { return step_->strategy(); }
  /// The position in the data; empty if the batches come from a function.
  const DataPosition& data_position() const { return position_; }

 private:
  std::shared_ptr<const TrainStep> step_;
  Run run_;
  DataPosition position_;
};

/// Computes the total loss, a scalar, of one per-replica batch: builds the model and its losses and
/// ends with `return losses::get_total_loss();`. Called in every step, by all replicas at the same
/// time.
template <class B>
using TotalLossFunction = std::function<at::Tensor(const B& replica_batch)>;

/// A source of data instead of a dataset: returns the next global batch, or nothing at the end.
template <class B>
using GlobalBatchSource = std::function<std::optional<B>()>;

/// Creates a train op for an existing model, on batches that are already split for the replicas.
/// The overloads of `create_train_op` call it.
template <class B>
TrainOp make_train_op(std::shared_ptr<const TrainStep> step, TotalLossFunction<B> total_loss,
                      std::shared_ptr<ReplicaBatchQueue<B>> queue) {
  DataPosition position;
  if (queue->has_position()) {
    position.save = [queue] { return queue->save(); };
    position.restore = [queue](const io::StateTree& state) { queue->restore(state); };
  }
  auto run =
      [step, total_loss = std::move(total_loss),
       queue = std::move(queue)]() -> std::optional<distribute::PerReplica<distribute::StepLoss>> {
    const auto* batch = queue->front();
    if (batch == nullptr) return std::nullopt;
    const std::int64_t updates = step->optimizer().updates();
    try {
      auto losses = step->strategy().run(
          [&](distribute::ReplicaContext& context, const B& replica_batch) {
            return step->run(context, [&] { return total_loss(replica_batch); });
          },
          *batch);
      queue->pop();
      return losses;
    } catch (...) {
      if (step->optimizer().updates() != updates) queue->pop();
      throw;
    }
  };
  return TrainOp(std::move(step), std::move(run), std::move(position));
}

/// Creates a train op that minimizes `total_loss` on all replicas of `strategy` with `rule`, the
/// options of an update rule such as `optim::Adam{.learning_rate = 1e-3}`:
///
///   auto train_op = slim::learning::create_train_op(
///       strategy, [](const input::LabeledBatch& replica_batch) {
///         const auto logits = slim_net(replica_batch.features);
///         slim::losses::sparse_softmax_cross_entropy(logits, replica_batch.labels);
///         return slim::losses::get_total_loss();
///       }, dataset, optim::Sgd{.learning_rate = 0.01}, {.clip_gradient_norm = 1.0});
///   slim::learning::train(train_op, {.number_of_steps = 1000});
///
/// Calls `total_loss` once immediately, on the first replica's part of the first batch, to create
/// the variables; existing variables are reused. The current argument scopes apply in every step.
/// It trains on one pass over the dataset, including the first batch; its elements are global
/// batches (use `repeat` for several epochs). In each step the replicas' gradients are summed as
/// the loss scale says, then multiplied, then clipped, so that any number of replicas makes the
/// update of one. TensorFlow: slim.learning.create_train_op.
///
/// The strategy must outlive the result. Throws kOutOfRange for empty data; kInvalidArgument for
/// invalid options, scopes without a trainable variable, and multipliers of variables that are not
/// trained; the errors of `total_loss`.
template <class B, class Rule>
TrainOp create_train_op(distribute::Strategy& strategy,
                        std::type_identity_t<TotalLossFunction<B>> total_loss,
                        const distribute::DistributedDataset<B>& dataset, const Rule& rule,
                        TrainOpOptions options = {}) {
  return create_train_op(strategy, std::move(total_loss), make_replica_batch_queue(dataset), rule,
                         std::move(options));
}
template <class B, class Rule>
TrainOp create_train_op(distribute::Strategy& strategy,
                        std::type_identity_t<TotalLossFunction<B>> total_loss,
                        const data::Dataset<B>& dataset, const Rule& rule,
                        TrainOpOptions options = {}) {
  return create_train_op(strategy, std::move(total_loss), strategy.distribute(dataset), rule,
                         std::move(options));
}
/// The same, on batches from a function: `create_train_op<at::Tensor>(strategy, loss, source,
/// ...)`.
template <class B, class Rule>
TrainOp create_train_op(distribute::Strategy& strategy,
                        std::type_identity_t<TotalLossFunction<B>> total_loss,
                        std::type_identity_t<GlobalBatchSource<B>> source, const Rule& rule,
                        TrainOpOptions options = {}) {
  auto queue = std::make_shared<ReplicaBatchQueue<B>>(
      [&strategy, source = std::move(source)]() -> std::optional<distribute::PerReplica<B>> {
        std::optional<B> batch = source();
        if (!batch) return std::nullopt;
        return strategy.split_batch(*batch);
      });
  return create_train_op(strategy, std::move(total_loss), std::move(queue), rule,
                         std::move(options));
}
template <class B, class Rule>
TrainOp create_train_op(distribute::Strategy& strategy,
                        std::type_identity_t<TotalLossFunction<B>> total_loss,
                        std::shared_ptr<ReplicaBatchQueue<B>> queue, const Rule& rule,
                        TrainOpOptions options = {}) {
  const B& first = queue->first_replica_batch();
  run_first_pass(strategy, [&] { total_loss(first); });
  auto step = std::make_shared<const TrainStep>(strategy, distribute::rule_for(strategy, rule),
                                                std::move(options));
  return make_train_op<B>(std::move(step), std::move(total_loss), std::move(queue));
}

namespace learning {
using slim::create_train_op;
using slim::TrainOp;
using slim::TrainOpOptions;
}  // namespace learning

}  // namespace brigade::slim

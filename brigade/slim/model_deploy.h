#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/distribute/strategy.h"
#include "brigade/layers/arg_scope.h"
#include "brigade/layers/v1/loss_collection.h"
#include "brigade/slim/deployment_config.h"
#include "brigade/slim/replica_batch_queue.h"
#include "brigade/slim/train_op.h"

namespace brigade::slim::model_deploy {

/// One copy of a model.
struct Clone {
  std::string scope;   ///< its name scope in the pass, "clone_0/"; empty for a single clone
  std::string device;  ///< where the config wants it: "/device:GPU:0"
  std::string placed;  ///< where it runs: "gpu:0", and on machines without one "cpu:0"
};

/// What a clone computes in a step.
enum class CloneInput {
  kBatchEach,  ///< a batch of its own, as from a queue
  kSlices      ///< its slice of one batch
};

/// What a clone's loss counts for.
enum class CloneWeight {
  kEqual,      ///< 1 / num_clones, as in Slim: the mean of the clones
  kByExamples  ///< by the clone's examples: the mean over all examples, exact for uneven batches
};

struct CloneOptions {
  CloneInput input = CloneInput::kBatchEach;
  CloneWeight weight = CloneWeight::kEqual;
  /// Whether the variables' regularizers are added, once, to the first clone's loss.
  layers::v1::losses::Regularization regularization = layers::v1::losses::Regularization::kYes;
  /// Threads of each clone on CPU.
  int threads_per_clone = 1;
  std::uint64_t seed = 0;
  /// A clone that others wait for longer than this fails the step.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// A model and its losses on one clone's batch: builds layers, and adds losses to the pass by
/// `slim::losses`. What it returns is dropped.
template <class B>
using CloneFunction = std::function<void(const B& batch)>;

/// The clones' devices under one strategy, and what stands around each clone's pass. Knows nothing
/// of batches; programs meet it inside `Clones` and `DeployedModel`.
///
/// Thread-safety: `total_loss` on the clones' threads, the rest outside of them.
class CloneSet {
 public:
  /// Throws kUnimplemented for a config that spans several tasks, kNotFound for GPUs that do not
  /// exist where others do.
  CloneSet(const DeploymentConfig& config, const CloneOptions& options);

  /// Calls `pass` as the calling clone's (outside of clones as the first one's): in its scopes.
  void run_in_scopes(const std::function<void()>& pass) const;
  /// The same, and what the clone adds to the total loss: the sum of its losses by its weight, and
  /// in the first clone the regularization. Throws kFailedPrecondition if it made no loss.
  at::Tensor total_loss(const std::function<void()>& pass) const;

  const std::vector<Clone>& clones() const { return clones_; }
  distribute::Strategy& strategy() const { return *strategy_; }

 private:
  double weight(const distribute::ReplicaContext* context) const;
  CloneOptions options_;
  layers::CapturedArgScope defaults_;  // of layers, where the clones were made
  std::unique_ptr<distribute::Strategy> strategy_;
  std::vector<Clone> clones_;
};

/// Clones of a model whose variables are made, with the data that they will take. Made by
/// `create_clones`, used up by `optimize_clones`.
template <class B>
struct Clones {
  std::shared_ptr<CloneSet> set;
  CloneFunction<B> model_fn;
  std::shared_ptr<ReplicaBatchQueue<B>> queue;

  const std::vector<Clone>& clones() const { return set->clones(); }
  distribute::Strategy& strategy() const { return set->strategy(); }
};

/// A model that is deployed for training. A handle: copies are the same model.
///
/// Thread-safety: one thread, outside of the clones.
struct DeployedModel {
  std::shared_ptr<CloneSet> set;
  /// One step of all clones; its result is the total loss.
  TrainOp train_op;

  const std::vector<Clone>& clones() const { return set->clones(); }
  distribute::Strategy& strategy() const { return set->strategy(); }
};

/// Puts a clone of `model_fn` on each of the config's devices and makes the variables, by a first
/// pass on the first clone's batch; they live on the config's variables device. Machines without
/// GPUs, and `clone_on_cpu`, have a logical CPU for each clone; clones that exceed the cores share
/// them. One walk over the dataset is what they train on. TensorFlow: model_deploy.create_clones.
///
/// Throws kUnimplemented if the config spans several tasks (`num_ps_tasks`, `num_replicas`): the
/// names are computed, but nothing runs on other tasks; kOutOfRange for no batch at all; what
/// `model_fn` throws.
template <class B>
Clones<B> create_clones(const DeploymentConfig& config,
                        std::type_identity_t<CloneFunction<B>> model_fn,
                        const data::Dataset<B>& dataset, const CloneOptions& options = {}) {
  auto set = std::make_shared<CloneSet>(config, options);
  auto distributed = options.input == CloneInput::kSlices
                         ? set->strategy().distribute(dataset)
                         : set->strategy().distribute_from_function(
                               [&](const distribute::InputContext&) { return dataset; });
  auto queue = make_replica_batch_queue(distributed);
  const B& first = queue->first_replica_batch();
  run_first_pass(set->strategy(), [&] { set->run_in_scopes([&] { model_fn(first); }); });
  return {.set = std::move(set), .model_fn = std::move(model_fn), .queue = std::move(queue)};
}

/// Trains the clones with `rule`: each clone's loss is divided by the number of clones, their
/// gradients are summed on the optimizer's device and applied once. Regularization is added to the
/// first clone alone, and only the first clone's update ops run: every clone's moving statistics
/// are the first one's. A clone that is left without a batch at the end of the data adds nothing.
///
/// Of `options`, `loss_scale` has no say, and `update_ops` kRun means the first clone's.
/// TensorFlow: model_deploy.optimize_clones. Throws as `create_train_op`.
template <class B, class Rule>
DeployedModel optimize_clones(Clones<B> clones, const Rule& rule, TrainOpOptions options = {}) {
  options.loss_scale = distribute::LossScale::kAlreadyScaled;
  if (options.update_ops == UpdateOps::kRun) options.update_ops = UpdateOps::kRunInFirstReplica;
  auto step = std::make_shared<const TrainStep>(clones.strategy(), rule.rule(), std::move(options));
  auto op = make_train_op<B>(
      std::move(step),
      [set = clones.set, model_fn = std::move(clones.model_fn)](const B& batch) {
        return set->total_loss([&] { model_fn(batch); });
      },
      std::move(clones.queue));
  return {.set = std::move(clones.set), .train_op = std::move(op)};
}

/// Both, which is all that a program needs:
///
///   auto model = slim::model_deploy::deploy(DeploymentConfig({.num_clones = 2}), model_fn,
///   dataset,
///                                           optim::Sgd{.learning_rate = 0.01});
///   slim::learning::train(model.train_op, {.number_of_steps = 1000});
///
/// TensorFlow: model_deploy.deploy.
template <class B, class Rule>
DeployedModel deploy(const DeploymentConfig& config,
                     std::type_identity_t<CloneFunction<B>> model_fn,
                     const data::Dataset<B>& dataset, const Rule& rule,
                     const CloneOptions& clone_options = {}, TrainOpOptions options = {}) {
  return optimize_clones(create_clones(config, std::move(model_fn), dataset, clone_options), rule,
                         std::move(options));
}

}  // namespace brigade::slim::model_deploy

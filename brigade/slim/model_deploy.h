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
#include "brigade/device/device_scope.h"
#include "brigade/distribute/strategies/towers.h"
#include "brigade/distribute/strategy.h"
#include "brigade/layers/arg_scope.h"
#include "brigade/layers/v1/tf_losses.h"
#include "brigade/slim/train_op.h"

namespace brigade::slim::model_deploy {

/// Options of `DeploymentConfig`, with Slim's names.
struct DeploymentOptions {
  /// Copies of the model in this process, one per device.
  int num_clones = 1;
  /// Whether clones run on CPUs even if there are GPUs.
  bool clone_on_cpu = false;
  /// The index of this process among the processes of the training.
  int replica_id = 0;
  /// The number of processes that train the model, each with its own clones.
  int num_replicas = 1;
  /// The number of tasks that hold variables: the parameter servers of the
  /// `ParameterServerStrategy` under which the model is deployed. 0: variables are in this process.
  int num_ps_tasks = 0;
  /// The jobs in device names; counts only with parameter server tasks.
  std::string worker_job_name = "worker";
  std::string ps_job_name = "ps";
};

/// The devices of a model's clones, variables, inputs and optimizer, as device names for
/// `with_device`. TensorFlow: slim's model_deploy.DeploymentConfig.
///
/// Thread-safety: a value; copies of one `variables_device()` share its round-robin counter.
class DeploymentConfig {
 public:
  /// Throws kInvalidArgument: `num_replicas` above 1 without parameter server tasks; with either,
  /// an empty job name; `replica_id` that is not below `num_replicas`; counts that are not
  /// positive, or a negative number of tasks.
  explicit DeploymentConfig(DeploymentOptions options = {});

  int num_clones() const { return options_.num_clones; }
  bool clone_on_cpu() const { return options_.clone_on_cpu; }
  int replica_id() const { return options_.replica_id; }
  int num_replicas() const { return options_.num_replicas; }
  int num_ps_tasks() const { return options_.num_ps_tasks; }

  /// "/job:worker" and "/job:ps"; empty without parameter server tasks.
  std::string worker_device() const;
  std::string ps_device() const;

  /// The device of clone `clone_index`: "/device:GPU:1", or "/device:CPU:0" on CPU, with the
  /// worker's job as prefix if there is one. For a single clone only the prefix, so "" means any
  /// device. Throws kInvalidArgument if `clone_index` is not below `num_clones`.
  std::string clone_device(int clone_index) const;
  /// The name scope of a clone: "clone_1"; "" for a single clone. Throws as `clone_device`.
  std::string clone_scope(int clone_index) const;
  /// The device on which gradients are summed and applied: the worker's CPU.
  std::string optimizer_device() const;
  /// The device that reads the data: the same.
  std::string inputs_device() const { return optimizer_device(); }
  /// Where reads cache copies of variables; nothing without parameter server tasks, because the
  /// variables are then in this process.
  std::optional<std::string> caching_device() const;
  /// Places variables without an explicit device: on the CPU, or on the parameter server tasks in
  /// round-robin order, "/job:ps/task:1/device:CPU:0". Each call starts with task 0.
  device::DeviceFunction variables_device() const;

 private:
  void check_clone(int clone_index) const;
  DeploymentOptions options_;
};

/// One copy of a model.
struct Clone {
  std::string scope;   ///< its name scope in the pass, "clone_0/"; empty for a single clone
  std::string device;  ///< the device of the config: "/device:GPU:0"
  std::string
      placed;  ///< the device on which it runs: "gpu:0", or "cpu:0" on machines without a GPU
};

/// The weight of a clone's loss.
enum class CloneWeight {
  kEqual,      ///< 1 / num_clones, as in Slim: the mean of the clones
  kByExamples  ///< by the number of the clone's examples: the exact mean over all examples, also
               ///< for uneven batches
};

/// Options of `create_clones`: how its clones get their input, and how they run.
struct CloneOptions {
  /// A separate batch for each clone, as from a queue, or a slice of one batch.
  distribute::TowerInput input = distribute::TowerInput::kBatchEach;
  CloneWeight weight = CloneWeight::kEqual;
  /// Whether to add the regularization losses, once, to the first clone's loss.
  bool regularization = true;
  /// The number of threads of each clone on CPU.
  int threads_per_replica = 1;
  /// The seed of initial values and of all randomness in the clones.
  std::uint64_t seed = 0;
  /// If a clone makes the others wait for longer than this, the step fails.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// A model and its losses on one clone's batch: builds layers, and adds losses with `slim::losses`.
template <class B>
using CloneFunction = std::function<void(const B& batch)>;

/// The devices of the clones under one strategy, and the scopes of each clone's pass. It is
/// independent of the batch type; programs use it through `Clones` and `DeployedModel`.
///
/// With parameter server tasks the strategy is the one whose scope is open, which must outlive it:
/// its devices run the clones. Otherwise it makes its own.
///
/// Thread-safety: `total_loss` is called on the clones' threads, everything else outside of them.
class CloneSet {
 public:
  /// Throws as `create_clones`; kNotFound if there are GPUs, but fewer than clones.
  CloneSet(const DeploymentConfig& config, const CloneOptions& options);

  /// Calls `pass` in the scopes of the calling clone; outside of clones, in those of the first
  /// clone.
  void run_in_scopes(const std::function<void()>& pass) const;
  /// The same, and returns the clone's term of the total loss: the weighted sum of its losses,
  /// plus, in the first clone, the regularization. Throws kFailedPrecondition if `pass` added no
  /// loss.
  at::Tensor total_loss(const std::function<void()>& pass) const;

  const std::vector<Clone>& clones() const { return clones_; }
  distribute::Strategy& strategy() const { return *strategy_; }
  /// The part that this worker's loss has in an update: 1 / the workers whose gradients are added
  /// in a synchronous training with parameter servers, else 1.
  double weight_of_worker() const;

 private:
  double weight(const distribute::ReplicaContext* context) const;
  CloneOptions options_;
  layers::CapturedArgScope defaults_;                   // of layers, where the clones were created
  std::unique_ptr<distribute::Strategy> own_strategy_;  // null with parameter server tasks
  distribute::Strategy* strategy_;
  device::DeviceFunction variables_device_;  // empty: the strategy places variables
  std::vector<Clone> clones_;
};

/// Clones of a model whose variables have been created, with their data. Created by
/// `create_clones`, consumed by `optimize_clones`.
template <class B>
struct Clones {
  std::shared_ptr<CloneSet> set;
  CloneFunction<B> model_fn;
  std::shared_ptr<ReplicaBatchQueue<B>> queue;

  const std::vector<Clone>& clones() const { return set->clones(); }
  distribute::Strategy& strategy() const { return set->strategy(); }
};

/// A model that is deployed for training. A handle: copies refer to the same model.
///
/// Thread-safety: one thread, outside of the clones.
struct DeployedModel {
  /// The clones that `train_op` runs.
  std::shared_ptr<CloneSet> set;
  /// Makes one step of all clones; the result is the total loss.
  TrainOp train_op;

  const std::vector<Clone>& clones() const { return set->clones(); }
  distribute::Strategy& strategy() const { return set->strategy(); }
};

/// Creates a clone of `model_fn` on each device of the config, and the variables on the config's
/// variables device, in a first pass over the first clone's batch. On machines without GPUs, and
/// with `clone_on_cpu`, each clone has a logical CPU; if there are more clones than cores, they
/// share cores. The clones train on one pass over the dataset. TensorFlow:
/// model_deploy.create_clones.
///
/// With `num_ps_tasks` (and `num_replicas` processes that run the same program) the scope of a
/// `ParameterServerStrategy` must be open, which must outlive the model: it knows the cluster, the
/// clones run on its devices, and of `options` only `input`, `weight` and `regularization` count.
/// Its servers keep the variables, as `variables_device` of the config places them:
///
///   bg::ParameterServerStrategy strategy(cluster, "worker", task);  // devices, mode
///   const auto scope = strategy.scope();
///   auto model = deploy(DeploymentConfig({.replica_id = task, .num_replicas = 2,
///                                         .num_ps_tasks = 2}), model_fn, dataset, rule);
///
/// Throws kFailedPrecondition for `num_ps_tasks` without such a scope; kInvalidArgument, naming
/// both, if config and strategy disagree about the numbers of servers, replicas or clones, the
/// replica's index, or the name of the servers' job ("ps"); kOutOfRange for an empty dataset; the
/// errors of `model_fn`.
template <class B>
Clones<B> create_clones(const DeploymentConfig& config,
                        std::type_identity_t<CloneFunction<B>> model_fn,
                        const data::Dataset<B>& dataset, const CloneOptions& options = {}) {
  auto set = std::make_shared<CloneSet>(config, options);
  auto distributed = options.input == distribute::TowerInput::kSlices
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
/// first clone only, and only the first clone's update ops run: all clones have the moving
/// statistics of the first. A clone without a batch at the end of the data contributes nothing. In
/// a synchronous training with parameter servers the update is the mean of the workers' gradients.
///
/// `options.loss_scale` is ignored, and `update_ops` kRun means the first clone's. TensorFlow:
/// model_deploy.optimize_clones. Throws as `create_train_op`.
template <class B, class Rule>
DeployedModel optimize_clones(Clones<B> clones, const Rule& rule, TrainOpOptions options = {}) {
  options.loss_scale = distribute::LossScale::kAlreadyScaled;
  if (options.update_ops == UpdateOps::kRun) options.update_ops = UpdateOps::kRunInFirstReplica;
  options.gradient_weight *= clones.set->weight_of_worker();
  auto step = std::make_shared<const TrainStep>(
      clones.strategy(), distribute::rule_for(clones.strategy(), rule), std::move(options));
  auto op = make_train_op<B>(
      std::move(step),
      [set = clones.set, model_fn = std::move(clones.model_fn)](const B& batch) {
        return set->total_loss([&] { model_fn(batch); });
      },
      std::move(clones.queue));
  return {.set = std::move(clones.set), .train_op = std::move(op)};
}

/// Calls `create_clones` and `optimize_clones`:
///
///   auto model = slim::model_deploy::deploy(DeploymentConfig({.num_clones = 2}), model_fn,
///                                           dataset, optim::Sgd{.learning_rate = 0.01});
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

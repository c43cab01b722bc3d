#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/strategy.h"
#include "brigade/layers/arg_scope.h"
#include "brigade/optim/parameter_group.h"
#include "brigade/optim/update_rule.h"
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
  /// Whether a step with a total loss that is not finite throws before it changes anything. On GPUs
  /// this waits for the loss in each step.
  bool check_numerics = true;
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
};

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
  /// Returns the loss, detached.
  at::Tensor run(const distribute::ReplicaContext& context,
                 const std::function<at::Tensor()>& total_loss) const;

  /// After `run`, outside of replicas: combines the losses of all replicas.
  at::Tensor finish(const distribute::PerReplica<at::Tensor>& losses) const;

  distribute::Strategy& strategy() const { return *strategy_; }
  const variables::Variable& global_step() const { return global_step_; }
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
};

}  // namespace brigade::slim

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

/// Whether a step whose total loss is not finite is refused before it changes anything. On GPUs it
/// costs a wait for the loss in each step.
enum class CheckNumerics { kNo, kYes };

/// What becomes of the updates that a pass collects (moving statistics of batch norm).
enum class UpdateOps {
  kRun,                ///< every replica's; reading gives their mean
  kRunInFirstReplica,  ///< replica 0's, for all: the moving statistics are those of its batches
  kSkip                ///< none
};

/// Whether a step adds one to the global step.
enum class CountSteps { kNo, kYes };

struct TrainOpOptions {
  /// The largest norm of each variable's gradient, which is scaled down to it; 0: not limited.
  double clip_gradient_norm = 0.0;
  /// Factors of the gradients of single variables, by name: 10 for a new last layer, 0.1 for what a
  /// checkpoint brought.
  std::map<std::string, double> gradient_multipliers = {};
  /// Scopes whose variables are trained: names that begin with one of them. Empty: all trainable
  /// variables that were made by name in the strategy, which is more than the loss may depend on
  /// (they have slots then, and stay as they are).
  std::vector<std::string> variables_to_train = {};
  CheckNumerics check_numerics = CheckNumerics::kYes;
  UpdateOps update_ops = UpdateOps::kRun;
  /// What the total loss of one replica stands for. Regularization losses in it count once under
  /// kMeanOverExamples; under the others the loss function must see to that.
  distribute::LossScale loss_scale = distribute::LossScale::kMeanOverExamples;
  /// An int64 variable that counts updates. Unset: "global_step", made if there is none.
  std::optional<variables::Variable> global_step = std::nullopt;
  CountSteps count_steps = CountSteps::kYes;
  /// Variables with rates of their own; see distribute::OptimizerOptions.
  std::vector<optim::ParameterGroup> groups = {};
};

/// Calls `pass`, a model's first pass, outside of replicas: variables that it asks for are made, or
/// found where they exist, and lie flat; what else it collects is dropped. Throws
/// kFailedPrecondition inside a replica, and what the pass throws.
void run_first_pass(distribute::Strategy& strategy, const std::function<void()>& pass);

/// What `TrainOp` does in each step, whatever the batches are: from a replica's total loss to the
/// update. For `create_train_op` and `model_deploy`; programs use those.
///
/// Thread-safety: `run` on the replicas' threads, the rest outside of them.
class TrainStep {
 public:
  /// Of variables that exist: see `run_first_pass`. Throws as `create_train_op`.
  TrainStep(distribute::Strategy& strategy, optim::UpdateRulePtr rule, TrainOpOptions options);

  /// In a replica: the total loss, its gradients, the update. Collective. Returns the loss,
  /// detached.
  at::Tensor run(const distribute::ReplicaContext& context,
                 const std::function<at::Tensor()>& total_loss) const;

  /// Behind the replicas: all replicas' losses as one.
  at::Tensor finish(const distribute::PerReplica<at::Tensor>& losses) const;

  distribute::Strategy& strategy() const { return *strategy_; }
  const variables::Variable& global_step() const { return global_step_; }
  CountSteps count_steps() const { return options_.count_steps; }
  const std::vector<variables::Variable>& variables() const { return trained_; }
  const distribute::Optimizer& optimizer() const { return optimizer_; }

 private:
  void check_loss(const distribute::ReplicaContext& context, const at::Tensor& loss) const;
  distribute::Gradients shaped(const distribute::Gradients& local) const;

  distribute::Strategy* strategy_;
  TrainOpOptions options_;
  layers::CapturedArgScope defaults_;  // of layers, where the train op was made
  variables::Variable global_step_;
  std::vector<variables::Variable> trained_;
  std::vector<variables::Variable> statistics_;  // of replica 0 alone, for all
  distribute::Optimizer optimizer_;
};

}  // namespace brigade::slim

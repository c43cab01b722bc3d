#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/comm/step_progress.h"
#include "brigade/distribute/optimizer/deferred_pass.h"
#include "brigade/distribute/optimizer/gradient_accumulator.h"
#include "brigade/distribute/optimizer/gradient_hooks.h"
#include "brigade/distribute/optimizer/gradient_scaler.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/optimizer/subtree_sums.h"

namespace brigade::distribute {

/// What all copies of an Optimizer refer to. For optimizer*.cpp.
///
/// Thread-safety: `replicas[r]` and calls with `replica` from the thread of that replica in a run,
/// from the caller's outside; the rest does not change.
struct Optimizer::Shared {
  /// What one replica accumulates and counts.
  struct alignas(64) ReplicaState {
    ReplicaState(const optim::OptimizerState& state, int replica,
                 const std::optional<GradientScalerOptions>& options);

    GradientAccumulator accumulator;
    std::optional<GradientScaler> scaler;
    std::int64_t updates = 0;
    std::int64_t skipped = 0;
    bool was_skipped = false;
    std::int64_t counted = 0;  // the global step, when its variable has this version:
    std::optional<std::int64_t> counted_version = std::nullopt;
  };

  Shared(const optim::OptimizerState& state, std::shared_ptr<GradientSynchronizer> how,
         const OptimizerOptions& options, StrategyRef maker, std::shared_ptr<SubtreeSums> sums);

  ReplicaState& of(int replica) { return *replicas[static_cast<std::size_t>(replica)]; }
  /// Of the calling replica; outside of replicas, of replica 0.
  ReplicaState& calling_replica();
  /// The calling replica's context. The replica must belong to the strategy that made this.
  const ReplicaContext& replica_context() const;
  /// The progress that the other processes compare with theirs; null for a single process.
  comm::StepProgress* progress() const { return synchronizer->progress(); }

  const torch::autograd::variable_list& inputs_of(int replica) const {
    return inputs[static_cast<std::size_t>(replica)];
  }
  /// Throws kFailedPrecondition if a variable does not require a gradient any more.
  void check_differentiable(const optim::OptimizerState& state, int replica) const;
  /// Throws kFailedPrecondition unless this is the scale that was declared first.
  void declare(LossScale scale);
  bool is_mean() const { return declared == static_cast<int>(LossScale::kMeanOverExamples); }
  /// The weight of a loss in a step. Others add their gradients of means to the same update, if
  /// workers share no collectives.
  double weighted(double weight) const {
    return is_mean() ? weight * synchronizer->loss_weight() : weight;
  }

  /// What is added up with the gradients of this loss; undefined: nothing.
  at::Tensor part_to_sum(const StepLoss& loss) const;

  /// Whether gradients may be reduced during the backward pass of `loss`.
  bool can_reduce_eagerly(int replica, const at::Tensor& loss) const;
  /// The gradients of `loss` times `weight` for the active variables; undefined for variables on
  /// which it does not depend.
  torch::autograd::variable_list differentiate(int replica, const at::Tensor& loss, double weight,
                                               const comm::BackwardPasses* passes) const;
  /// For an empty per-replica batch: runs backward if it contains collectives, in which the other
  /// replicas wait. The gradients are dropped, since those of a loss of 0 / 0 are NaN.
  void join_backward(int replica, const Objective& objective) const;
  /// Defers gradients that take less memory than when they are computed. If the sums of the device
  /// are completed in this pass (`reduces`), so is theirs.
  DeferredPass::Policy deferral_policy(int replica, bool reduces) const;
  struct ByProduct {
    std::size_t variable;
    variables::DeferredGradientPtr gradient;
  };
  /// In a pipeline, defers gradients of weights to stages that are idle, which write them to
  /// `parts`.
  DeferredPass::Policy to_idle_stages(const comm::BackwardPasses& passes, ReplicaGradients& parts,
                                      std::vector<ByProduct>& by_products) const;
  at::Tensor in_layout(const at::Tensor& gradient, std::size_t variable) const {
    return in_parameter_layout(gradient, sparse, formats[variable]);
  }

  /// Whether an update with these gradients is left out, which all replicas decide together.
  bool overflows(const ReplicaContext& context, std::span<const at::Tensor> values,
                 GradientState state) const;
  void count_skipped(int replica);
  void count_update(int replica);
  /// The part of `count_update` that a device does.
  void add_to_global_step(int replica) const;
  /// The part of `count_update` that the host does, for an update that was queued.
  void record_update(int replica);
  /// The value of the global step. Replica 0's thread counts it along, and reads it only after
  /// others have changed it.
  std::int64_t global_step_value();

  void add_micro_batch(int replica, const ReplicaGradients& gradients, const Objective& objective);
  void clear_accumulated(int replica);

  const StrategyRef owner;
  const std::shared_ptr<GradientSynchronizer> synchronizer;
  const std::shared_ptr<SubtreeSums> subtree_sums;  // null: each replica has its own device
  const SparseGradients sparse;
  std::unique_ptr<SubtreeReadyListener> sums_listener;  // what the hooks notify, if there are sums
  std::unique_ptr<GradientHooks> hooks;  // if the synchronizer reduces during backward
  const int accumulate;
  const std::optional<variables::Variable> global_step;
  const std::optional<GradientScalerOptions> scaler;
  std::vector<std::size_t> active;                      // variables that are not frozen
  std::vector<at::MemoryFormat> formats;                // [variable]
  std::vector<torch::autograd::variable_list> inputs;   // [replica]: their components
  std::vector<std::unique_ptr<ReplicaState>> replicas;  // [replica]
  std::atomic<int> declared{kUndeclared};

 private:
  static constexpr int kUndeclared = -1;

  void add_hooks(GradientReadyListener& listener);
  std::int64_t step_version(int replica) const {
    return global_step->component(replica)._version();
  }
};

/// With an audit of the calling replica's gradients: what it does before an update, and after the
/// replicas have published their gradients.
void audit_before_update(const ReplicaContext& context);
void audit_after_publishing(const ReplicaContext& context);

}  // namespace brigade::distribute

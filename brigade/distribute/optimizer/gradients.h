#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/optimizer/step_loss.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {

/// The gradients of one replica and one step, which `Optimizer::compute_gradients` returns and
/// `apply_gradients` takes; in between they may be changed. They record whether they were
/// aggregated over the replicas, so that this happens exactly once.
///
/// Thread-safety: its replica's thread only.
class Gradients {
 public:
  /// One value per variable, undefined if it has no gradient. Throws kInvalidArgument, naming the
  /// variable, if a value has another shape or dtype than its variable.
  Gradients(std::span<const variables::Variable> variables, std::vector<at::Tensor> values,
            GradientState state, std::uint64_t step, StepLoss loss = {});

  std::size_t size() const { return values_.size(); }
  /// The optimizer's variables, in the order of the gradients.
  std::span<const variables::Variable> variables() const { return variables_; }
  const variables::Variable& variable(std::size_t i) const { return variables_[i]; }
  /// The gradient of the i-th variable; undefined if the loss does not depend on it in this
  /// replica. Assign to it, or change it in place.
  at::Tensor& operator[](std::size_t i) { return values_[i]; }
  const at::Tensor& operator[](std::size_t i) const { return values_[i]; }
  /// The gradient of the variable of this name. Throws kNotFound listing the names.
  at::Tensor& operator[](std::string_view name);

  std::span<const at::Tensor> values() const { return values_; }
  GradientState state() const { return state_; }
  /// The step (`ReplicaContext::step`) whose loss this is.
  std::uint64_t step() const { return step_; }
  /// The loss, and that of the global batch once it was aggregated with them.
  const StepLoss& loss() const { return loss_; }

 private:
  std::span<const variables::Variable> variables_;  // the optimizer's
  std::vector<at::Tensor> values_;
  GradientState state_;
  std::uint64_t step_;
  StepLoss loss_;
};

/// Throws kInvalidArgument unless there is one gradient per variable, and each defined gradient has
/// its variable's shape and dtype. The message names the variable, what was given and what is
/// needed. Called wherever gradients enter that a program may have assigned, since the code that
/// adds and applies them reads memory by the variable's shape.
void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients);

/// The same, and the gradients must be on the device of replica `replica`'s variables.
void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients, int replica);

/// The mean of the towers' gradients, for `Optimizer::apply_gradients` outside of replicas:
///
///   auto towers = strategy.run([&](ReplicaContext&, const Batch& batch) {
///     return adam.compute_gradients(loss(batch), LossScale::kAlreadyScaled); }, batches);
///   adam.apply_gradients(average_gradients(towers));
///
/// For each variable it is the mean over the towers that have a gradient of it; a variable without
/// a gradient in any tower has none in the result. Gradients are summed by the comm::ReductionTree
/// of the towers, on the device of the variables. Towers are not weighted by their numbers of
/// examples: the mean is exact if each tower's loss is the mean over a batch of the same size.
/// Throws kInvalidArgument if the towers' gradients are not of the same optimizer and step, or if
/// an assigned gradient does not have its variable's shape and dtype. TensorFlow: average_gradients
/// of the multi-tower tutorials.
Gradients average_gradients(const PerReplica<Gradients>& towers);

}  // namespace brigade::distribute

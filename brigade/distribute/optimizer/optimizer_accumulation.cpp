// Accumulation of micro-batches by an optimizer.

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/hierarchical.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/optimizer/optimizer_shared.h"
#include "brigade/distribute/optimizer/sum_of_replicas.h"
#include "brigade/variables/memory_order.h"

namespace brigade::distribute {

namespace {

/// `parts[variable][replica of this process]`: its gradient, undefined if it has none.
using GradientParts = std::vector<std::vector<at::Tensor>>;

/// The sums over the replicas of this process.
std::vector<at::Tensor> local_sums(const GradientParts& parts) {
  std::vector<at::Tensor> sums;
  for (const auto& of_variable : parts) {
    const bool is_present = std::ranges::any_of(of_variable, &at::Tensor::defined);
    sums.push_back(is_present ? sum_of_replicas(of_variable) : at::Tensor());
  }
  return sums;
}

/// The sums over the replicas of all processes. A process may lack a gradient that others have.
std::vector<at::Tensor> sums_over(const WorkerGroup& workers, const optim::OptimizerState& state,
                                  const GradientParts& parts) {
  std::vector<at::Tensor> examples;
  for (const auto& of_variable : parts) {
    const auto first = std::ranges::find_if(of_variable, &at::Tensor::defined);
    examples.push_back(first == of_variable.end() ? at::Tensor() : *first);
  }
  const std::vector<bool> known = present_anywhere(*workers.communicator, examples);
  GradientParts sent;
  std::vector<at::Tensor> like;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!known[i]) continue;
    sent.push_back(parts[i]);
    like.push_back(variables::in_memory_order(state.variables()[i].component(0).detach(),
                                              state.variables()[i].memory_format()));
  }
  const auto received =
      comm::sum_over_replicas(workers.communicator.get(), workers.layout, sent, like);
  std::vector<at::Tensor> sums(parts.size());
  for (std::size_t i = 0, next = 0; i < sums.size(); ++i) {
    if (known[i]) sums[i] = received[next++];
  }
  return sums;
}

/// Sums in the dtypes of their variables: half and bfloat16 are rounded here, once.
std::vector<at::Tensor> rounded(const optim::OptimizerState& state, std::vector<at::Tensor> sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].defined()) sums[i] = sums[i].to(state.variables()[i].dtype());
  }
  return sums;
}

}  // namespace

void Optimizer::Shared::add_micro_batch(int replica, const ReplicaGradients& gradients,
                                        const Objective& objective) {
  of(replica).was_skipped = false;
  of(replica).accumulator.add(gradients, objective.global_examples, objective.local_examples);
  if (replica == 0 && progress()) progress()->add_micro_batches(1);
}

void Optimizer::Shared::clear_accumulated(int replica) {
  GradientAccumulator& accumulator = of(replica).accumulator;
  if (replica == 0 && progress()) progress()->add_micro_batches(-accumulator.micro_batches());
  accumulator.clear();
}

void Optimizer::flush() const {
  if (in_cross_replica_context()) return apply_all_accumulated();
  const ReplicaContext& context = shared_->replica_context();
  if (micro_batches() > 0) apply_accumulated(context);
}

// All replicas' parts are divided by the examples of all replicas, which are counted here for
// batches that were not distributed.
StepLoss Optimizer::apply_accumulated(const ReplicaContext& context, StepLoss loss) const {
  audit_before_update(context);
  GradientAccumulator& accumulator = shared_->calling_replica().accumulator;
  std::int64_t examples = accumulator.global_examples();
  if (shared_->is_mean() && accumulator.local_examples())
    examples += summed_over_replicas(context, *accumulator.local_examples());
  const bool divides = shared_->is_mean() && examples > 0;
  const auto values = accumulator.divided(divides ? static_cast<double>(examples) : 1.0);
  loss =
      apply_in(context, to_parts(rounded(*state_, values)), GradientState::kLocal, std::move(loss));
  shared_->clear_accumulated(context.local_id);
  return loss;
}

void Optimizer::apply_all_accumulated() const {
  const auto& replicas = shared_->replicas;
  std::int64_t examples = replicas.front()->accumulator.global_examples();
  std::int64_t unknown = 0;  // examples that only this process knows
  for (const auto& replica : replicas) {
    check_state(replica->accumulator.micro_batches() == micro_batches(),
                "flush: replica 0 has accumulated ", micro_batches(), " micro-batches and another ",
                replica->accumulator.micro_batches(),
                ": a step failed in between. Discard them with discard().");
    unknown += replica->accumulator.local_examples().value_or(0);
  }
  if (micro_batches() == 0) return;
  const at::NoGradGuard no_grad;
  const WorkerGroup* workers = shared_->synchronizer->workers();
  const bool is_counted = replicas.front()->accumulator.local_examples().has_value();
  if (is_counted && workers)
    unknown = comm::all_reduce_number(*workers->communicator, unknown, comm::ReduceOp::kSum);
  if (is_counted) examples += unknown;
  const bool divides = shared_->is_mean() && examples > 0;
  GradientParts parts(state_->variables().size(), std::vector<at::Tensor>(replicas.size()));
  for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
    const auto values =
        replicas[replica]->accumulator.divided(divides ? static_cast<double>(examples) : 1.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i].defined())
        parts[i][replica] = values[i].to(state_->variables()[i].storage()->master(0).device());
    }
  }
  std::vector<at::Tensor> sums = workers ? sums_over(*workers, *state_, parts) : local_sums(parts);
  apply_outside(GradientState::kAggregated, rounded(*state_, std::move(sums)));
  discard();
}

void Optimizer::discard() const {
  check_state(
      in_cross_replica_context(),
      "Discard accumulated gradients outside of Strategy::run: they belong to the replicas.");
  for (std::size_t replica = 0; replica < shared_->replicas.size(); ++replica)
    shared_->clear_accumulated(static_cast<int>(replica));
}

}  // namespace brigade::distribute

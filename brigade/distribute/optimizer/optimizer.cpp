#include "brigade/distribute/optimizer/optimizer.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/step_clock.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/distribute/optimizer/optimizer_shared.h"
#include "brigade/distribute/optimizer/subtree_sums.h"
#include "brigade/distribute/step_capture.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/memory_order.h"

namespace brigade::distribute {

namespace {

constexpr const char* kScalerState = "gradient_scaler";

std::vector<at::Tensor> in_parameter_layout(const Gradients& gradients, SparseGradients sparse) {
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    values.push_back(distribute::in_parameter_layout(gradients.values()[i], sparse,
                                                     gradients.variable(i).memory_format()));
  }
  return values;
}

/// Values in memory order, as programs get them: in the shapes of their variables.
std::vector<at::Tensor> in_shapes(const optim::OptimizerState& state,
                                  std::vector<at::Tensor> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const variables::Variable& variable = state.variables()[i];
    if (values[i].defined() && variable.memory_format() != at::MemoryFormat::Contiguous)
      values[i] =
          variables::from_memory_order(values[i], variable.shape(), variable.memory_format());
  }
  return values;
}

void check(const OptimizerOptions& options) {
  check_argument(options.accumulate >= 1, "OptimizerOptions::accumulate is ", options.accumulate,
                 " and must be at least 1.");
  if (!options.global_step) return;
  const variables::Variable& step = *options.global_step;
  check_argument(step.dtype() == at::kLong && step.numel() == 1 && !step.trainable(),
                 "The global step '", step.name(), "' must be one int64 that is not trained.");
}

void run_scheduled_updates() {
  if (variables::Graph* graph = variables::current_graph()) graph->run_scheduled_updates();
}

}  // namespace

Optimizer::Optimizer(std::shared_ptr<optim::OptimizerState> state,
                     std::shared_ptr<GradientSynchronizer> synchronizer,
                     const OptimizerOptions& options, StrategyRef owner,
                     std::shared_ptr<SubtreeSums> subtree_sums)
    : state_(std::move(state)) {
  check(options);
  shared_ = std::make_shared<Shared>(*state_, std::move(synchronizer), options, std::move(owner),
                                     std::move(subtree_sums));
}

const std::optional<variables::Variable>& Optimizer::global_step() const {
  return shared_->global_step;
}

std::int64_t Optimizer::global_step_value() const {
  check_state(shared_->global_step && in_cross_replica_context(),
              "Optimizer::global_step_value is called outside of Strategy::run, of an optimizer "
              "with OptimizerOptions::global_step.");
  return shared_->global_step_value();
}

StepLoss Optimizer::minimize(const at::Tensor& loss, LossScale scale,
                             const at::Tensor& report) const {
  const ReplicaContext& context = shared_->replica_context();
  const bool accumulates = shared_->accumulate > 1;
  check_state(!accumulates || context.capture() == nullptr,
              "the optimizer accumulates micro-batches, so not every call updates");
  shared_->declare(scale);
  const Objective objective =
      objective_of(context, loss, scale, accumulates ? Normalize::kLater : Normalize::kNow);
  StepLoss step_loss(context, objective, loss, scale, report);
  if (!accumulates) {
    return apply_in(context, local_gradients(context, objective, GradientUse::kApplied),
                    GradientState::kLocal, std::move(step_loss));
  }
  shared_->join_backward(context.local_id, objective);
  const auto gradients = backward(context, objective.loss, shared_->weighted(objective.weight()),
                                  GradientUse::kAccumulated);
  audit_before_update(context);
  audit_after_publishing(context);
  shared_->add_micro_batch(context.local_id, gradients, objective);
  if (micro_batches() >= shared_->accumulate)
    return apply_accumulated(context, std::move(step_loss));
  run_scheduled_updates();
  return step_loss;
}

Gradients Optimizer::compute_gradients(const at::Tensor& loss, LossScale scale,
                                       const at::Tensor& report) const {
  const ReplicaContext& context = shared_->replica_context();
  shared_->declare(scale);
  const Objective objective = objective_of(context, loss, scale, Normalize::kNow);
  auto values = computed(local_gradients(context, objective, GradientUse::kReturned));
  return {state_->variables(), in_shapes(*state_, std::move(values)), GradientState::kLocal,
          context.step(), StepLoss(context, objective, loss, scale, report)};
}

Gradients Optimizer::aggregate(const Gradients& gradients) const {
  check_state(gradients.state() == GradientState::kLocal,
              "These gradients are the sum over the replicas already: aggregate them once.");
  check_own(gradients);
  const ReplicaContext& context = shared_->replica_context();
  const int replica = context.local_id;
  check_gradients(state_->variables(), gradients.values(), replica);
  audit_before_update(context);
  audit_after_publishing(context);
  StepLoss loss = gradients.loss();
  const at::Tensor part = shared_->part_to_sum(loss);
  const auto own = in_parameter_layout(gradients, shared_->sparse);
  GradientSynchronizer& synchronizer = *shared_->synchronizer;
  std::vector<at::Tensor> sums;
  if (part.defined()) {
    auto [of_gradients, of_losses] = synchronizer.aggregate_with(replica, own, part);
    sums = std::move(of_gradients);
    loss = loss.with_sum(of_losses);
  } else {
    sums = synchronizer.aggregate(replica, own);
  }
  return {state_->variables(), in_shapes(*state_, std::move(sums)), GradientState::kAggregated,
          gradients.step(), std::move(loss)};
}

StepLoss Optimizer::apply_gradients(const Gradients& gradients) const {
  check_own(gradients);
  if (in_cross_replica_context()) {
    check_gradients(state_->variables(), gradients.values());
    apply_outside(gradients.state(), in_parameter_layout(gradients, shared_->sparse));
    return gradients.loss();
  }
  const ReplicaContext& context = shared_->replica_context();
  check_gradients(state_->variables(), gradients.values(), context.local_id);
  if (gradients.step() != context.step()) {
    throw Error(ErrorCode::kFailedPrecondition, "These gradients are of step ", gradients.step(),
                " and this is step ", context.step(),
                ": apply gradients in the step that computed them.");
  }
  return apply_in(context, to_parts(in_parameter_layout(gradients, shared_->sparse)),
                  gradients.state(), gradients.loss());
}

void Optimizer::check_own(const Gradients& gradients) const {
  check_argument(gradients.variables().data() == state_->variables().data(),
                 "These gradients are of another optimizer's variables: apply them with the "
                 "optimizer that computed them.");
}

StepLoss Optimizer::apply_in(const ReplicaContext& context, ReplicaGradients gradients,
                             GradientState state, StepLoss loss) const {
  const int replica = context.local_id;
  audit_before_update(context);
  const device::AutocastScope full(device::Precision::kFull);
  const comm::PhaseScope update(current_step_clock(), comm::StepPhase::kUpdate);
  if (context.capture() != nullptr) {
    capture_in(context, values_of(gradients), state);
    return loss;
  }
  const bool skips = shared_->scaler && shared_->overflows(context, values_of(gradients), state);
  // Before the audit, for which all replicas wait: so a device does not keep all their gradients.
  const bool adds = !skips && shared_->subtree_sums && state == GradientState::kLocal;
  const std::vector<at::Tensor> values =
      adds ? shared_->subtree_sums->add(replica, std::move(gradients))
           : computed(std::move(gradients));
  audit_after_publishing(context);
  if (skips) {
    skip_in(replica);
    return loss;
  }
  const at::Tensor part =
      state == GradientState::kLocal ? shared_->part_to_sum(loss) : at::Tensor();
  if (part.defined()) {
    loss = loss.with_sum(shared_->synchronizer->apply_with(replica, values, part));
  } else {
    shared_->synchronizer->apply(replica, values, state);
  }
  shared_->count_update(replica);
  run_scheduled_updates();
  return loss;
}

// Nothing is computed now: what counts updates on the host is done after each replay.
void Optimizer::capture_in(const ReplicaContext& context, std::span<const at::Tensor> values,
                           GradientState state) const {
  check_state(!shared_->scaler,
              "the optimizer has a gradient scaler, with which the host decides about each update");
  check_state(shared_->synchronizer->can_be_captured(),
              "the optimizer's gradients leave the replica's device");
  const int replica = context.local_id;
  // Replicas of one GPU share the state, and make one update, which is replica 0's.
  std::optional<optim::OptimizerState::CaptureScope> scope;
  if (replica == 0) scope.emplace(*state_);
  shared_->synchronizer->apply(replica, values, state);
  shared_->add_to_global_step(replica);
  run_scheduled_updates();
  if (replica != 0) return;
  const auto captured = std::make_shared<const optim::CapturedUpdate>(scope->update(replica));
  context.capture()->add_host_work(
      {.is_current = [state = state_, captured] { return state->can_replay(*captured); },
       .after_replay = [optimizer = *this, captured] { optimizer.count_replay(*captured); }});
}

void Optimizer::count_replay(const optim::CapturedUpdate& captured) const {
  state_->count_replay(/*replica=*/0, captured);
  for (int replica = 0; replica < static_cast<int>(shared_->replicas.size()); ++replica) {
    mark_updated(*state_, captured.has_gradient, replica);
    shared_->record_update(replica);
  }
}

// Statistics of a pass that overflowed may be infinite, too.
void Optimizer::skip_in(int replica) const {
  shared_->count_skipped(replica);
  if (variables::Graph* graph = variables::current_graph()) graph->drop_scheduled_updates();
}

void Optimizer::apply_outside(GradientState state, std::span<const at::Tensor> values) const {
  check_state(state == GradientState::kAggregated,
              "One replica's gradients were applied outside of Strategy::run: apply them in the "
              "replica, or all replicas' average (average_gradients) here.");
  for (std::size_t replica = 0; replica < shared_->replicas.size(); ++replica) {
    for (const variables::Variable& variable : state_->variables())
      variable.check_untouched(static_cast<int>(replica));
  }
  const bool skips = shared_->scaler && !are_finite(values);
  if (!skips && !shared_->synchronizer->apply_outside(values)) apply_everywhere(*state_, values);
  for (int replica = 0; replica < static_cast<int>(shared_->replicas.size()); ++replica) {
    if (skips) {
      shared_->count_skipped(replica);
    } else {
      shared_->count_update(replica);
    }
  }
}

int Optimizer::micro_batches() const {
  return shared_->calling_replica().accumulator.micro_batches();
}

bool Optimizer::was_skipped() const {
  return shared_->calling_replica().was_skipped;
}

std::int64_t Optimizer::skipped_updates() const {
  return shared_->calling_replica().skipped;
}

double Optimizer::gradient_scale() const {
  const auto& scaler = shared_->calling_replica().scaler;
  return scaler ? scaler->scale() : 1.0;
}

std::int64_t Optimizer::updates() const {
  const auto of_job = shared_->synchronizer->global_step();
  return of_job.value_or(shared_->calling_replica().updates);
}

void Optimizer::set_learning_rate(double rate) const {
  check_state(in_cross_replica_context(),
              "Set the learning rate outside of Strategy::run: all replicas share it.");
  state_->set_learning_rate(rate);
  shared_->synchronizer->set_learning_rate(rate);
}

optim::SavedOptimizer Optimizer::save(std::string_view name) const {
  optim::SavedOptimizer saved = state_->save(name);
  const auto& scaler = shared_->replicas.front()->scaler;
  if (scaler) saved.state[kScalerState] = scaler->save();
  return saved;
}

std::vector<std::string> Optimizer::restore(std::string_view name,
                                            const optim::SavedOptimizer& saved,
                                            optim::MissingSlots missing) const {
  check_state(in_cross_replica_context(),
              "Restore an optimizer outside of Strategy::run: all replicas share it.");
  const bool has_scaler = shared_->scaler && saved.state.has(kScalerState);
  if (has_scaler) GradientScaler(*shared_->scaler).restore(saved.state.at(kScalerState));  // checks
  std::vector<std::string> lacking = state_->restore(name, saved, missing);
  if (has_scaler) {
    for (const auto& replica : shared_->replicas)
      replica->scaler->restore(saved.state.at(kScalerState));
  }
  shared_->synchronizer->set_learning_rate(state_->learning_rate());
  discard();
  return lacking;
}

}  // namespace brigade::distribute

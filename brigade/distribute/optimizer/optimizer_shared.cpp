#include "brigade/distribute/optimizer/optimizer_shared.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/device/captured_graph.h"
#include "brigade/distribute/gradient_audit.h"
#include "brigade/distribute/step_capture.h"

namespace brigade::distribute {

Optimizer::Shared::ReplicaState::ReplicaState(const optim::OptimizerState& state, int replica,
                                              const std::optional<GradientScalerOptions>& options)
    : accumulator(state, replica) {
  if (options) scaler.emplace(*options);
}

Optimizer::Shared::Shared(const optim::OptimizerState& state,
                          std::shared_ptr<GradientSynchronizer> how,
                          const OptimizerOptions& options, StrategyRef maker,
                          std::shared_ptr<SubtreeSums> sums)
    : owner(std::move(maker)),
      synchronizer(std::move(how)),
      subtree_sums(std::move(sums)),
      sparse(synchronizer->takes_rows() ? SparseGradients::kKeepRows : SparseGradients::kMakeDense),
      accumulate(options.accumulate),
      global_step(options.global_step),
      scaler(options.gradient_scaler) {
  for (std::size_t i = 0; i < state.variables().size(); ++i) {
    formats.push_back(state.variables()[i].memory_format());
    if (!state.is_frozen(i)) active.push_back(i);
  }
  for (int replica = 0; replica < state.variables().front().num_components(); ++replica) {
    auto& row = inputs.emplace_back();
    for (const std::size_t i : active) row.push_back(state.variables()[i].component(replica));
    replicas.push_back(std::make_unique<ReplicaState>(state, replica, scaler));
    check_differentiable(state, replica);
  }
  GradientReadyListener* const listener = synchronizer->ready_listener();
  if (listener == nullptr || accumulate > 1) return;
  if (!subtree_sums) {
    add_hooks(*listener);
  } else if (subtree_sums->devices_are_subtrees()) {
    sums_listener = std::make_unique<SubtreeReadyListener>(*subtree_sums, *listener);
    add_hooks(*sums_listener);
  }
}

void Optimizer::Shared::add_hooks(GradientReadyListener& listener) {
  std::vector<std::vector<HookedParameter>> parameters;
  for (const auto& of_replica : inputs) {
    auto& row = parameters.emplace_back();
    for (std::size_t k = 0; k < of_replica.size(); ++k)
      row.push_back(
          {.parameter = of_replica[k], .variable = active[k], .memory_format = formats[active[k]]});
  }
  hooks = std::make_unique<GradientHooks>(listener, std::move(parameters), sparse);
}

Optimizer::Shared::ReplicaState& Optimizer::Shared::calling_replica() {
  const comm::Replica* replica = comm::current_replica();
  return of(replica == nullptr ? 0 : replica->local_id);
}

const ReplicaContext& Optimizer::Shared::replica_context() const {
  const ReplicaContext* context = current_replica_context();
  check_state(context != nullptr,
              "An optimizer was used outside of a replica: call it in a function that "
              "Strategy::run runs.");
  owner.check(*context, "An optimizer");
  check_state(
      context->capture() != nullptr || !device::is_capturing(context->device().torch_device),
      "An optimizer was used in a CUDA graph that the program captures itself: its host's "
      "part, such as the count of updates, would be missing in replays. Let "
      "Strategy::compile capture the step.");
  return *context;
}

void Optimizer::Shared::check_differentiable(const optim::OptimizerState& state,
                                             int replica) const {
  const auto& parameters = inputs[static_cast<std::size_t>(replica)];
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    if (parameters[k].requires_grad()) continue;
    throw Error(ErrorCode::kFailedPrecondition, "Variable '", state.variables()[active[k]].name(),
                "' does not require a gradient any more in replica ", replica,
                ": call set_requires_grad(false) before its model is created, in a factory "
                "for Strategy::create, or freeze it by a group of "
                "OptimizerOptions::groups.");
  }
}

void Optimizer::Shared::declare(LossScale scale) {
  int declared_before = kUndeclared;
  if (declared.compare_exchange_strong(declared_before, static_cast<int>(scale))) return;
  if (declared_before == static_cast<int>(scale)) return;
  throw Error(ErrorCode::kFailedPrecondition, "The loss was declared as ",
              to_string(static_cast<LossScale>(declared_before)), " before and now as ",
              to_string(scale), ": an optimizer has one scale in every replica and step.");
}

bool Optimizer::Shared::overflows(const ReplicaContext& context, std::span<const at::Tensor> values,
                                  GradientState state) const {
  if (!scaler) return false;
  const bool own = !are_finite(values);
  if (state == GradientState::kAggregated) return own;
  const bool any = context.count == 1 ? own
                                      : comm::all_reduce_number(*context.communicator, own ? 1 : 0,
                                                                comm::ReduceOp::kMax) != 0;
  return synchronizer->is_true_for_any(context.local_id, any);
}

at::Tensor Optimizer::Shared::part_to_sum(const StepLoss& loss) const {
  if (!loss.has_part() || !synchronizer->can_sum(loss.part_dtype(), loss.part_numel())) return {};
  const at::NoGradGuard no_grad;
  return loss.part();
}

void Optimizer::Shared::count_skipped(int replica) {
  ReplicaState& own = of(replica);
  ++own.skipped;
  own.was_skipped = true;
  own.scaler->update(GradientScaler::Outcome::kOverflow);
}

void Optimizer::Shared::count_update(int replica) {
  add_to_global_step(replica);
  record_update(replica);
}

void Optimizer::Shared::add_to_global_step(int replica) const {
  if (!global_step) return;
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;  // `record_update` bumps the version
  if (const auto of_job = synchronizer->global_step()) {
    global_step->component(replica).fill_(*of_job);
  } else {
    global_step->component(replica).add_(1);
  }
}

void Optimizer::Shared::record_update(int replica) {
  ReplicaState& own = of(replica);
  ++own.updates;
  own.was_skipped = false;
  if (own.scaler) own.scaler->update(GradientScaler::Outcome::kFinite);
  if (replica == 0 && progress()) progress()->count_update();
  if (!global_step) return;
  const bool is_known = own.counted_version == step_version(replica);
  global_step->mark_updated(replica);
  if (!is_known) return;
  own.counted_version = step_version(replica);
  own.counted = synchronizer->global_step().value_or(own.counted + 1);
}

std::int64_t Optimizer::Shared::global_step_value() {
  ReplicaState& own = of(0);
  if (own.counted_version != step_version(0)) {
    own.counted = global_step->component(0).item<std::int64_t>();
    own.counted_version = step_version(0);
  }
  return own.counted;
}

void audit_before_update(const ReplicaContext& context) {
  if (AuditedPass* const audit = context.audit()) audit->before_update();
}

void audit_after_publishing(const ReplicaContext& context) {
  if (AuditedPass* const audit = context.audit()) audit->compare();
}

}  // namespace brigade::distribute

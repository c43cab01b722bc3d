// The backward pass of an optimizer's losses.

#include <ATen/ScalarOps.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstddef>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/differentiable.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/distribute/gradient_audit.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/optimizer/optimizer_shared.h"
#include "brigade/distribute/step_capture.h"
#include "brigade/variables/graph.h"

namespace brigade::distribute {

namespace {

/// The updates that the layers of this pass collected: batch norm's moving statistics.
void schedule_updates_of_pass() {
  if (variables::Graph* graph = variables::current_graph()) graph->schedule_update_ops();
}

/// `weight` in the shape of the loss. A scalar on CPU is made without a dispatch.
at::Tensor gradient_of_loss(const at::Tensor& loss, double weight) {
  if (loss.dim() == 0 && loss.is_cpu())
    return at::detail::scalar_tensor_static(weight, loss.scalar_type(), c10::kCPU);
  return at::full(loss.sizes(), weight, loss.options().requires_grad(false));
}

}  // namespace

// Not if the backward pass contains collectives, which use the processes' communicator, and not if
// the gradients may turn out not to be applied. Of replicas that compute one after another, only
// the last one: the others would all keep what they have reported.
bool Optimizer::Shared::can_reduce_eagerly(int replica, const at::Tensor& loss) const {
  return hooks && !scaler && synchronizer->ready_listener()->is_enabled() &&
         !comm::backward_is_collective(loss) && (!subtree_sums || subtree_sums->is_last(replica));
}

torch::autograd::variable_list Optimizer::Shared::differentiate(
    int replica, const at::Tensor& loss, double weight, const comm::BackwardPasses* passes) const {
  const torch::autograd::variable_list& variables = inputs_of(replica);
  torch::autograd::variable_list with_inputs;  // if there are any: copying is not free in each step
  if (passes) with_inputs = passes->inputs();
  if (!with_inputs.empty())
    with_inputs.insert(with_inputs.begin(), variables.begin(), variables.end());
  auto gradients = torch::autograd::grad({loss}, with_inputs.empty() ? variables : with_inputs,
                                         {gradient_of_loss(loss, weight)}, std::nullopt,
                                         /*create_graph=*/false, /*allow_unused=*/true);
  const auto first_input = gradients.begin() + static_cast<std::ptrdiff_t>(variables.size());
  if (passes) {
    passes->keep_local_gradients(variables, {gradients.begin(), first_input});
    passes->send_input_gradients({first_input, gradients.end()});
  }
  gradients.resize(variables.size());
  return gradients;
}

void Optimizer::Shared::join_backward(int replica, const Objective& objective) const {
  if (comm::backward_is_collective(objective.empty_loss))
    differentiate(replica, objective.empty_loss, 0.0, nullptr);
}

DeferredPass::Policy Optimizer::Shared::deferral_policy(int replica, bool reduces) const {
  DeferredPass::Policy policy{.wants = [this, replica](std::size_t index, std::int64_t bytes) {
    const at::Tensor& variable = inputs_of(replica)[index];
    return formats[active[index]] == at::MemoryFormat::Contiguous &&
           bytes <= static_cast<std::int64_t>(variable.nbytes());
  }};
  if (reduces) {
    policy.taken = [this, replica](std::size_t index,
                                   const variables::DeferredGradientPtr& gradient) {
      sums_listener->ready(replica, active[index], gradient);
      return false;
    };
  }
  return policy;
}

DeferredPass::Policy Optimizer::Shared::to_idle_stages(const comm::BackwardPasses& passes,
                                                       ReplicaGradients& parts,
                                                       std::vector<ByProduct>& by_products) const {
  constexpr std::int64_t kBytes = 16 << 10;  // less is not worth waking a thread
  const auto wants = [&passes](std::size_t, std::int64_t bytes) {
    return bytes >= kBytes && passes.may_defer();
  };
  const auto taken = [&, this](std::size_t k, const variables::DeferredGradientPtr& gradient) {
    const std::size_t variable = active[k];
    if (gradient->is_by_product()) {
      by_products.push_back({variable, gradient});
      return true;
    }
    passes.defer([this, &value = parts[variable].value, gradient, variable] {
      value = in_layout(gradient->compute(), variable);
    });
    return true;
  };
  return {.wants = wants, .taken = taken};
}

ReplicaGradients Optimizer::local_gradients(const ReplicaContext& context,
                                            const Objective& objective, GradientUse use) const {
  shared_->join_backward(context.local_id, objective);
  const auto examples = static_cast<double>(objective.global_examples.value_or(1));
  return backward(context, objective.loss, shared_->weighted(objective.weight(examples)), use);
}

ReplicaGradients Optimizer::backward(const ReplicaContext& context, const at::Tensor& loss,
                                     double weight, GradientUse use) const {
  AuditedPass* const audit = context.audit();
  if (audit && audit->delays_reduction()) use = GradientUse::kReturned;
  ReplicaGradients gradients = differentiate(context, loss, weight, use);
  if (audit) audit->record(state_->variables(), values_of(gradients));
  return gradients;
}

/// Whether layers may return gradients that are not computed: if they are only added to others.
/// Micro-batches of a pipeline would leave all of that work to the last one.
bool Optimizer::may_defer(const ReplicaContext& context, GradientUse use) const {
  if (shared_->scaler || context.stages != nullptr || context.capture() != nullptr) return false;
  if (use == GradientUse::kApplied)
    return shared_->subtree_sums && shared_->subtree_sums->shares_device(context.local_id);
  return use == GradientUse::kAccumulated;
}

ReplicaGradients Optimizer::differentiate(const ReplicaContext& context, const at::Tensor& loss,
                                          double weight, GradientUse use) const {
  const int replica = context.local_id;
  for (const variables::Variable& variable : state_->variables()) variable.check_untouched(replica);
  shared_->check_differentiable(*state_, replica);
  const device::AutocastScope full(device::Precision::kFull);
  ReplicaGradients parts(state_->variables().size());
  const comm::BackwardPasses passes;  // waits, before `parts` go, for what writes to them
  if (!loss.defined()) {
    schedule_updates_of_pass();
    return parts;
  }
  check_state(loss.requires_grad(),
              "The loss has no graph: it must be computed from the model's parameters, with "
              "gradients enabled.");
  std::optional<GradientHooks::Watch> watch;
  if (shared_->subtree_sums) shared_->subtree_sums->begin(replica);
  if (use == GradientUse::kApplied && shared_->can_reduce_eagerly(replica, loss))
    watch.emplace(*shared_->hooks, replica, loss);
  std::optional<DeferredPass> deferred;
  std::vector<Shared::ByProduct> by_products;
  const bool has_idle_stages = context.stages != nullptr && !watch;
  if (may_defer(context, use) || has_idle_stages)
    deferred.emplace(loss, shared_->inputs_of(replica),
                     has_idle_stages ? shared_->to_idle_stages(passes, parts, by_products)
                                     : shared_->deferral_policy(replica, watch.has_value()));
  const auto& scaler = shared_->of(replica).scaler;
  const double scale = scaler ? scaler->scale() : 1.0;
  passes.begin(loss);
  const auto gradients = shared_->differentiate(replica, loss, weight * scale, &passes);
  passes.complete_deferred();
  for (const Shared::ByProduct& each : by_products)
    parts[each.variable].value = shared_->in_layout(each.gradient->compute(), each.variable);
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    variables::GradientPart& part = parts[shared_->active[k]];
    if (deferred && !has_idle_stages) part.deferred = deferred->gradient(k);
    const at::Tensor reported = watch ? watch->reported(k, gradients[k]) : at::Tensor();
    if (reported.defined()) part.value = reported;
    if (!part.value.defined()) part.value = shared_->in_layout(gradients[k], shared_->active[k]);
    // Not in place: two variables may have got the same tensor.
    if (scale != 1.0 && part.value.defined()) part.value = part.value.mul(1.0 / scale);
  }
  schedule_updates_of_pass();
  return parts;
}

}  // namespace brigade::distribute

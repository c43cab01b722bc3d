#include "brigade/distribute/replica_context.h"

#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/differentiable.h"
#include "brigade/distribute/strategy.h"

namespace brigade::distribute {

ReplicaContext::ReplicaContext(const comm::Replica& replica, Strategy& strategy,
                               const device::Device& device, const StepContext& step,
                               comm::LocalGroup& group, AuditedPass* audit)
    : comm::Replica(replica),
      strategy_(strategy),
      device_(device),
      step_(step),
      group_(group),
      audit_(audit) {}

std::optional<std::int64_t> ReplicaContext::local_examples() const {
  if (!step_.examples) return std::nullopt;
  return step_.examples->local[static_cast<std::size_t>(local_id)];
}

std::optional<std::int64_t> ReplicaContext::global_examples() const {
  if (!step_.examples) return std::nullopt;
  return step_.examples->global;
}

namespace {

/// One thread runs backward for all replicas on a card: a backward node that waited for another
/// replica on the card would deadlock.
void refuse_gradients_on_a_shared_card(const at::Tensor& value, const Strategy& strategy,
                                       std::string_view call) {
  if (!value.is_cuda() || !value.requires_grad() || !device::share_a_card(strategy.devices()))
    return;
  throw Error(ErrorCode::kUnimplemented, call,
              ": gradients through a collective are not possible between logical GPUs of one card; "
              "give every replica its own card.");
}

}  // namespace

at::Tensor ReplicaContext::all_reduce(comm::ReduceOp op, const at::Tensor& value) const {
  refuse_gradients_on_a_shared_card(value, strategy_, "all_reduce");
  const comm::PhaseScope communication(clock(), comm::StepPhase::kCommunication);
  return comm::differentiable_all_reduce(*communicator, value, op);
}

at::Tensor ReplicaContext::all_gather(const at::Tensor& value, std::int64_t axis) const {
  refuse_gradients_on_a_shared_card(value, strategy_, "all_gather");
  const comm::PhaseScope communication(clock(), comm::StepPhase::kCommunication);
  return comm::differentiable_all_gather(*communicator, value, axis);
}

void ReplicaContext::merge_call(const std::function<void(Strategy&)>& function) const {
  barrier();
  if (local_id == 0) {
    const comm::PhaseScope for_all(clock(), comm::StepPhase::kCommunication);
    const base::AmbientScope<const comm::Replica> cross_replica(comm::kReplicaSlot, nullptr);
    // An exception leaves this replica; the run then releases the others with its text.
    function(strategy_);
  }
  barrier();
}

const ReplicaContext* current_replica_context() {
  // A model may have a view of its replica, which is no context.
  return in_cross_replica_context() ? nullptr : device::carried(kContextSlot);
}

comm::StepClock* current_step_clock() {
  const ReplicaContext* context = current_replica_context();
  return context ? context->clock() : nullptr;
}

bool in_cross_replica_context() {
  return comm::current_replica() == nullptr;
}

namespace {

std::string name_and_devices(const Strategy& strategy) {
  std::vector<std::string> devices;
  for (const device::Device& device : strategy.devices())
    devices.push_back(device.name.to_string());
  return base::str_cat(strategy.name(), " (", base::join(devices, ", "), ")");
}

}  // namespace

StrategyRef::StrategyRef(const Strategy& strategy)
    : strategy_(&strategy), description_(name_and_devices(strategy)) {}

void StrategyRef::check(const ReplicaContext& context, std::string_view what) const {
  if (&context.strategy() == strategy_) return;
  throw Error(ErrorCode::kFailedPrecondition, what, " of the strategy ", description_,
              " is used in a replica of another, ", name_and_devices(context.strategy()),
              ": make it with the strategy whose run() uses it.");
}

}  // namespace brigade::distribute

#include "brigade/distribute/replica_context.h"

#include <exception>

#include "brigade/base/error.h"
#include "brigade/comm/differentiable.h"

namespace brigade::distribute {

ReplicaContext::ReplicaContext(const comm::Replica& place, Strategy& strategy,
                               const device::Device& device, const StepContext& step,
                               comm::LocalGroup& group)
    : comm::Replica(place), strategy_(strategy), device_(device), step_(step), group_(group) {}

std::optional<std::int64_t> ReplicaContext::local_examples() const {
  if (!step_.examples) return std::nullopt;
  return step_.examples->local[static_cast<std::size_t>(id)];
}

std::optional<std::int64_t> ReplicaContext::global_examples() const {
  if (!step_.examples) return std::nullopt;
  return step_.examples->global;
}

at::Tensor ReplicaContext::all_reduce(comm::ReduceOp op, const at::Tensor& value) const {
  return comm::differentiable_all_reduce(*communicator, value, op);
}

at::Tensor ReplicaContext::all_gather(const at::Tensor& value, std::int64_t axis) const {
  return comm::differentiable_all_gather(*communicator, value, axis);
}

void ReplicaContext::merge_call(const std::function<void(Strategy&)>& function) const {
  barrier();
  if (id == 0) {
    const base::AmbientScope<const comm::Replica> cross_replica(comm::kReplicaSlot, nullptr);
    // An exception leaves this replica, and the runner releases the others with its text.
    function(strategy_);
  }
  barrier();
}

const ReplicaContext* current_replica_context() {
  return static_cast<const ReplicaContext*>(comm::current_replica());
}

bool in_cross_replica_context() {
  return comm::current_replica() == nullptr;
}

}  // namespace brigade::distribute

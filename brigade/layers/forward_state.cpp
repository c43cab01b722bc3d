#include "brigade/layers/forward_state.h"

#include <cstddef>

#include "brigade/base/error.h"
#include "brigade/comm/replica.h"

namespace brigade::layers {

namespace {

const void* slot(const base::Ambient& ambient, base::AmbientIndex index) {
  return ambient.slots[static_cast<std::size_t>(index)];
}

}  // namespace

ForwardState::ForwardState()
    : ambient_(base::ambient()),
      device_scopes_(device::current_device_scopes()),
      arguments_(current_arg_scope()),
      autocast_(device::AutocastState::current()) {
  if (const comm::Replica* replica = comm::current_replica()) replica_ = *replica;
  if (const variables::Graph* graph = variables::current_graph()) graph_.emplace(*graph);
  const device::ReplicaGenerator* generator = device::kGeneratorSlot.get();
  generator_ = generator != nullptr ? generator->fork() : device::ReplicaGenerator::fork_default();
}

// What the replica refers to is valid until its run ends: surely if this is the replica's thread,
// or if its graph exists, which ends with the run. Of a model with a view of its replica, and a
// graph of its own, the context is that of the replica.
void ForwardState::check_replica_runs() const {
  const void* replica = slot(ambient_, base::AmbientIndex::kReplica);
  if (replica == nullptr || replica == comm::current_replica()) return;
  const void* context = slot(ambient_, base::AmbientIndex::kContext);
  if (context != nullptr && context == slot(base::ambient(), base::AmbientIndex::kContext)) return;
  check_state(graph_ && graph_->graph_exists(),
              "recompute: backward runs after the Strategy::run in which the function was called. "
              "Call minimize, or backward, in the same step function.");
}

namespace {

std::optional<variables::Graph> graph_from(const std::optional<variables::GraphSnapshot>& from) {
  return from ? std::optional<variables::Graph>(std::in_place, *from) : std::nullopt;
}

}  // namespace

ForwardState::Installed::Installed(const ForwardState& state)
    : ambient_((state.check_replica_runs(), state.ambient_)),
      replica_(comm::kReplicaSlot, state.replica_ ? &*state.replica_ : nullptr),
      // The rows are there already, and another fetch could bring newer ones.
      rows_(variables::kRowSourceSlot, nullptr),
      no_device_scope_(device::kDeviceScopeSlot, nullptr),
      arguments_(state.arguments_),
      random_(state.generator_->fork()),
      autocast_(state.autocast_),
      records_gradients_(true),
      graph_(graph_from(state.graph_)),
      opened_(variables::kGraphSlot, graph()) {
  // An open scope without content differs from none.
  if (!state.device_scopes_.empty()) device_scopes_.emplace(state.device_scopes_);
}

}  // namespace brigade::layers

#pragma once

#include <ATen/core/grad_mode.h>

#include <memory>
#include <optional>

#include "brigade/base/ambient.h"
#include "brigade/comm/replica.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/device/device_scope.h"
#include "brigade/device/random_scope.h"
#include "brigade/layers/arg_scope.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/row_source.h"

/// For `recompute`.
namespace brigade::layers {

/// What layers depend on besides their arguments, as it is on the calling thread: the replica, the
/// place in the graph, open scopes, random numbers, autocast. It owns what is gone by the time of
/// backward, since scopes are objects of functions that have returned.
///
/// Thread-safety: immutable.
class ForwardState {
 public:
  ForwardState();

  const device::AutocastState& autocast() const { return autocast_; }

  /// Installs the state on the calling thread while it lives, for a second call of a function:
  /// with gradients recorded, a separate graph, and without effects on running statistics.
  class Installed;

 private:
  void check_replica_runs() const;

  base::Ambient ambient_;
  std::optional<comm::Replica> replica_;  // a model may have a view of its own, which is gone then
  device::CapturedDeviceScopes device_scopes_;
  CapturedArgScope arguments_;
  std::optional<variables::GraphSnapshot> graph_;
  std::unique_ptr<const device::ReplicaGenerator> generator_;
  device::AutocastState autocast_;
};

class ForwardState::Installed {
 public:
  /// Throws kFailedPrecondition if the state is that of a replica whose run may have ended.
  explicit Installed(const ForwardState& state);

  /// The graph of the second call; null if none was open in the first.
  variables::Graph* graph() { return graph_ ? &*graph_ : nullptr; }

 private:
  const base::AmbientInstall ambient_;
  const base::AmbientScope<const comm::Replica> replica_;
  const base::AmbientScope<variables::RowSource> rows_;
  const base::AmbientScope<const device::DeviceScope> no_device_scope_;
  std::optional<device::DeviceScope> device_scopes_;
  const ArgScope arguments_;
  const device::ReplayScope random_;
  const device::AutocastScope autocast_;
  const at::AutoGradMode records_gradients_;
  std::optional<variables::Graph> graph_;
  const base::AmbientScope<variables::Graph> opened_;
};

}  // namespace brigade::layers

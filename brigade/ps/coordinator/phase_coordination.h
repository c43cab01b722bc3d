#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/distribute/coordination.h"

namespace brigade::ps {

struct PhaseCoordinationOptions {
  std::optional<cluster::ClusterKey> key = cluster::ClusterKey::from_environment();
  /// A worker that is silent for this long is lost.
  std::chrono::milliseconds lease = std::chrono::seconds(8);
  /// How long a worker waits for the chief.
  std::chrono::milliseconds coordinator_timeout = std::chrono::minutes(5);
  /// Ends all waits.
  concurrency::CancelToken cancel = {};
};

/// The phases of a strategy whose chief coordinates: a ClusterCoordinator in the chief, a
/// CoordinatedWorker in the workers. Each is made with the first phase, and ends with the object,
/// so a program has either phases or its own ClusterCoordinator. The first phase throws
/// kInvalidArgument for a cluster in which this process can be neither, and as
/// `rpc::listen_for_messages`.
std::shared_ptr<distribute::Coordination> make_phase_coordination(
    const cluster::ClusterConfig& cluster, const PhaseCoordinationOptions& options);

}  // namespace brigade::ps

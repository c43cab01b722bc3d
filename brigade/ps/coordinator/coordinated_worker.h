#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/ps/coordinator/coordinator_service.h"
#include "brigade/ps/coordinator/function_registry.h"

namespace brigade::ps {

/// Options of CoordinatedWorker.
struct CoordinatedWorkerOptions {
  /// The key that all processes of the cluster share. Default: `ClusterKey::from_environment`.
  std::optional<cluster::ClusterKey> key = cluster::ClusterKey::from_environment();
  /// How long the coordinator may be away: at the start, and while it is started again.
  std::chrono::milliseconds coordinator_timeout = std::chrono::minutes(5);
  /// A call that takes longer, beside a second for each megabyte of its messages, is made again.
  std::chrono::milliseconds attempt_timeout = std::chrono::seconds(10);
  /// Ends `join`, and waits in functions that use `WorkerContext::cancel`.
  concurrency::CancelToken cancel = {};
};

/// A worker of a ClusterCoordinator: runs the functions that the coordinator gives it, one after
/// another, on the thread that calls `join`.
///
///   FunctionRegistry functions = ...;   // the same in all processes
///   CoordinatedWorker worker(cluster::resolve_cluster(), functions);
///   worker.join();
///
/// The state of the functions (model, strategy, optimizer) is made by the registry's setup function
/// when the first one is run. If that throws, the function counts as failed. If a function
/// throws, the worker reports the exception to the coordinator (as kAborted if it is not an Error),
/// and continues. Only after a ReplacedError it ends: a later process of this task has joined the
/// servers or the coordinator.
///
/// A worker that ends while it has a function, or is silent for the length of its lease, is lost:
/// another one runs the function again.
///
/// Thread-safety: one thread.
class CoordinatedWorker {
 public:
  /// Throws kInvalidArgument unless the cluster has a chief apart from the workers, with an
  /// address, and this process is a worker. `functions` must outlive this.
  CoordinatedWorker(const cluster::ClusterConfig& cluster, const FunctionTable& functions,
                    CoordinatedWorkerOptions options = {});
  /// Uses this connection: for tests, and for other networks.
  CoordinatedWorker(const cluster::ClusterConfig& cluster, const FunctionTable& functions,
                    std::unique_ptr<CoordinatorService> coordinator,
                    CoordinatedWorkerOptions options = {});
  ~CoordinatedWorker();
  CoordinatedWorker(const CoordinatedWorker&) = delete;
  CoordinatedWorker& operator=(const CoordinatedWorker&) = delete;

  /// Runs functions until the coordinator has ended. Throws ReplacedError; kUnavailable if the
  /// coordinator could not be reached for `coordinator_timeout`; kCancelled. Call it once.
  void join();

  /// Runs the functions of one phase (`ClusterCoordinator::begin_phase`) until it has ended, and
  /// returns how; unset: the coordinator has ended without it. Call it with 1, 2, ..., and not with
  /// `join`. Between two calls this stays a member. Throws as `join`, and kAborted if the
  /// coordinator was started again after an earlier phase, which it repeats: then this process has
  /// to be started again, too.
  std::optional<PhaseEnd> serve_phase(std::int64_t phase);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::ps

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "brigade/base/environment.h"
#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/cluster_spec.h"
#include "brigade/cluster/environment_variables.h"
#include "brigade/cluster/task.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/io/file_system.h"
#include "brigade/ps/server/server_core.h"

namespace brigade::ps {

/// Whether the task is one of a `Server`: of the job "ps", or "ps_replica".
bool is_server_task(const cluster::Task& task);

/// Options of Server.
struct ServerOptions {
  /// Where the server keeps its log and snapshots; "ps-<index>" in it, of a replica
  /// "ps-<index>-replica". Default: the folder that `brigade launch` gives its servers. Empty: a
  /// new temporary folder, which is removed at the end: then a server that dies has lost its
  /// variables.
  io::Path folder = base::environment(cluster::kServerFolderVariable).value_or("");
  /// The key that all processes of the cluster share. Default: `ClusterKey::from_environment`.
  std::optional<cluster::ClusterKey> key = cluster::ClusterKey::from_environment();
  /// A task that is silent for this long is lost.
  std::chrono::milliseconds lease = std::chrono::seconds(8);
  /// The largest message, in both directions: a worker's push, or the values that it pulls.
  std::size_t max_message_bytes = std::size_t{1} << 30;
  /// All messages together that are being received or sent.
  std::size_t max_buffered_bytes = std::size_t{2} << 30;
  /// `ServerCoreOptions::snapshot_after_bytes`.
  std::uint64_t snapshot_after_bytes = std::uint64_t{256} << 20;
  /// Serves /metrics on this port of 127.0.0.1, in Prometheus's text format; 0: any free port.
  /// Unset: nothing is served.
  std::optional<int> metrics_port = std::nullopt;
  /// Ends `join`, as a shutdown.
  concurrency::CancelToken cancel = {};
};

/// A parameter server, or with the job "ps_replica" the second process of one: both have its
/// variables, and when the one that acts is lost, the other one acts. It keeps variables and
/// optimizer slots by name, applies workers' gradients and serves values; it knows nothing of
/// models. It listens while the object exists.
///
///   bg::Server server(cluster, "ps", 0);
///   server.join();
///
/// Unlike TensorFlow's, it ends when the training has: `join` returns once the chief has finished
/// and no other task trains. A task that was lost may return for three leases before that. A server
/// that is started in the folder of a job that has finished ends after three leases, unless the
/// chief joins. TensorFlow: tf.train.Server, tf.distribute.Server.
///
/// Thread-safety: all functions from any thread.
class Server {
 public:
  /// Throws as `ParameterStore`, `listen` and `MetricsPage`, and
  ///   - kInvalidArgument for a job other than "ps" and "ps_replica": the training tasks need no
  ///     server object, they connect as clients;
  ///   - kNotFound for a task that the cluster does not have;
  ///   - kFailedPrecondition if another server uses the folder, or if it was a replicated server's,
  ///     lacks updates that the other process of that server has, and this one is not replicated.
  Server(const cluster::ClusterSpec& cluster, const std::string& job, int task,
         ServerOptions options = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// "grpc://host:port", for messages: sessions run in the workers' own processes.
  std::string target() const;
  /// The port of the metrics, if they are served.
  std::optional<int> metrics_port() const;
  /// Returns when the training has ended, or `shutdown` is called, or `ServerOptions::cancel` is
  /// cancelled. Throws kDataLoss if the disk has failed, or memory ran out in the middle of an
  /// update: a server that is started again in the same folder has all that was acknowledged.
  void join();
  /// Ends `join`: a server that is started again in the same folder continues.
  void shutdown();

  /// Of a replicated server: whether this process acts, and its replica has all that it
  /// acknowledges.
  bool is_paired() const;
  /// These are empty for a process that does not act.
  ServerStatus status() const;
  ServerCounters counters() const;
  /// The text of its page of metrics.
  std::string metrics() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::ps

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "brigade/cluster/cluster_key.h"
#include "brigade/ps/paired_service.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/rpc/message_service.h"

namespace brigade::ps {

/// What a server's network has done since it was started, and what it has in progress.
struct ServiceLoad {
  std::int64_t received_bytes = 0;  ///< of the messages of calls
  std::int64_t sent_bytes = 0;      ///< of the messages of answers
  rpc::MessageLoad messages = {};
};

/// A parameter server's network: serves `service` at an address until it is destroyed, to holders
/// of the cluster's key, or without a key to programs of this machine. Calls run on its own
/// threads.
class ServiceListener {
 public:
  virtual ~ServiceListener() = default;
  /// "host:port", with the port that it has.
  virtual std::string address() const = 0;
  /// From any thread.
  virtual ServiceLoad load() const = 0;
};

struct ServiceListenerOptions {
  /// "host:port"; port 0: any.
  std::string address = "127.0.0.1:0";
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// The number of tasks of the job: limits calls that block, and connections.
  int tasks = 1;
  /// The largest message, a push's or a pull's, that is taken.
  std::size_t max_message_bytes = std::size_t{1} << 30;
  /// All messages together that are being received or sent; most tensors share their memory.
  std::size_t max_buffered_bytes = std::size_t{2} << 30;
  /// A message whose next part, up to 1 MiB, does not arrive or is not taken for this long is given
  /// up.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
  /// Threads that compute and wait for the disk.
  int threads = 4;
  /// Whether tasks on this host may pass gradients and values in shared memory.
  bool shared_memory = true;
};

/// Throws kUnimplemented without gRPC, kPermissionDenied beyond loopback without a key, and as
/// `rpc::make_rendezvous_server`. `service` must outlive the listener.
std::unique_ptr<ServiceListener> listen(ParameterService& service,
                                        const ServiceListenerOptions& options);
/// The same for a process of a replicated server.
std::unique_ptr<ServiceListener> listen(PairedService& service,
                                        const ServiceListenerOptions& options);

struct ConnectionOptions {
  /// Whether gradients and values travel in shared memory if the server is on this host.
  bool shared_memory = true;
};

/// A connection to the server at `address`, made at the first call and again after it was lost.
/// Throws kUnimplemented without gRPC, kPermissionDenied beyond loopback without a key.
std::unique_ptr<ParameterService> connect(const std::string& address,
                                          const std::optional<cluster::ClusterKey>& key,
                                          const ConnectionOptions& options = {});
/// The same to a process of a replicated server.
std::unique_ptr<PairedService> connect_to_pair(const std::string& address,
                                               const std::optional<cluster::ClusterKey>& key,
                                               const ConnectionOptions& options = {});

}  // namespace brigade::ps

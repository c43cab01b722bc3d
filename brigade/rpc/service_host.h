#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "brigade/cluster/address.h"
#include "brigade/cluster/cluster_key.h"

namespace grpc {
class Service;
}

namespace brigade::rpc {

struct ServiceHostOptions {
  /// Port 0: any.
  cluster::Address address;
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// The number of clients that may connect at the same moment, when a job starts.
  std::size_t clients = 1;
  /// A larger message ends its call.
  int max_message_bytes = 0;
  /// A connection without a call for this long is closed.
  std::chrono::milliseconds idle_timeout{0};
  std::chrono::milliseconds handshake_timeout{0};
};

/// Serves a gRPC service at an address: an Acceptor takes the connections and passes those of
/// members to a gRPC server, with TLS if there is a key.
///
/// The destructor calls `refuse_connections` and `shut_down`.
///
/// Thread-safety: none. Calls of the service run on gRPC's threads.
class ServiceHost {
 public:
  /// `service` must outlive this. Throws kUnavailable, naming the address, if it cannot listen.
  ServiceHost(grpc::Service& service, const ServiceHostOptions& options);
  ~ServiceHost();
  ServiceHost(const ServiceHost&) = delete;
  ServiceHost& operator=(const ServiceHost&) = delete;

  /// With the port that it has.
  const cluster::Address& address() const;

  /// Closes the port: from then on there are no new connections. Those that exist continue.
  void refuse_connections();
  /// Returns when all calls have ended. Those that do not end within a second are cut off; the
  /// service must then finish them.
  void shut_down();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::rpc

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "brigade/cluster/cluster_key.h"
#include "brigade/ps/coordinator/coordinator_service.h"
#include "brigade/rpc/message_service.h"

namespace brigade::ps {

struct CoordinatorListenerOptions {
  /// "host:port"; port 0: any.
  std::string address = "127.0.0.1:0";
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// The number of workers: limits calls that block, and connections.
  int workers = 1;
  /// The largest message: a function's arguments, or its result.
  std::size_t max_message_bytes = std::size_t{1} << 30;
  /// All messages together that are being received or sent. Their tensors take as much again while
  /// a thread works on them.
  std::size_t max_buffered_bytes = std::size_t{2} << 30;
  /// A message whose next part, up to 1 MiB, does not arrive or is not taken for this long is given
  /// up.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
};

/// A coordinator's network: serves `service` at an address until it is destroyed, to holders of the
/// cluster's key, or without a key to programs of this machine. Calls run on its own threads.
class CoordinatorListener {
 public:
  /// `service` must outlive it. Throws as `rpc::listen_for_messages`.
  CoordinatorListener(CoordinatorService& service, const CoordinatorListenerOptions& options);
  ~CoordinatorListener();
  CoordinatorListener(const CoordinatorListener&) = delete;
  CoordinatorListener& operator=(const CoordinatorListener&) = delete;

  /// "host:port", with the port that it has.
  std::string address() const { return listener_->address(); }

 private:
  std::unique_ptr<rpc::MessageService> served_;
  std::unique_ptr<rpc::MessageListener> listener_;  // uses served_
};

/// A connection to the coordinator at `address`, made at the first call and again after it was
/// lost. Throws as `rpc::make_message_client`.
std::unique_ptr<CoordinatorService> connect_to_coordinator(
    const std::string& address, const std::optional<cluster::ClusterKey>& key);

}  // namespace brigade::ps

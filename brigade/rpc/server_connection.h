#pragma once

#include <memory>
#include <optional>
#include <string>

#include "brigade/cluster/address.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/message_service.h"

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace brigade::rpc {

/// A client's connection to a listener, made again when it was lost.
///
/// Thread-safety: all functions from any thread.
class ServerConnection {
 public:
  using Time = MessageClient::Time;

  /// Throws kInvalidArgument for an address that is none, kPermissionDenied beyond loopback without
  /// a key.
  ServerConnection(const std::string& address, const std::optional<cluster::ClusterKey>& key);

  /// The channel for a call. If there is no connection, waits for one for half a second, not beyond
  /// `deadline`: a call without one fails.
  std::shared_ptr<grpc::Channel> channel(Time deadline) BRIGADE_EXCLUDES(mutex_);

  /// Throws the error of a call over `used` whose status is not OK: what the server threw, or
  /// kUnavailable, kDeadlineExceeded or kPermissionDenied (another key), naming the address. A
  /// connection that failed, or on which several calls in succession had no answer in time, is not
  /// used again.
  [[noreturn]] void fail(const std::shared_ptr<grpc::Channel>& used, const grpc::Status& status,
                         Time deadline) BRIGADE_EXCLUDES(mutex_);

  /// A call has succeeded.
  void record_answer() BRIGADE_EXCLUDES(mutex_);

  const cluster::Address& address() const { return address_; }

 private:
  void drop(const std::shared_ptr<grpc::Channel>& used) BRIGADE_EXCLUDES(mutex_);
  bool may_be_slow() BRIGADE_EXCLUDES(mutex_);
  bool has_another_key(Time deadline) const;

  const cluster::Address address_;
  const std::optional<cluster::ClusterKey> key_;
  concurrency::Mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_ BRIGADE_GUARDED_BY(mutex_);
  int unanswered_ BRIGADE_GUARDED_BY(mutex_) = 0;  // calls in succession
};

}  // namespace brigade::rpc

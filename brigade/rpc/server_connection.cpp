#include "brigade/rpc/server_connection.h"

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/cluster/host_lookup.h"
#include "brigade/rpc/channel.h"
#include "brigade/rpc/endpoint.h"
#include "brigade/rpc/message_errors.h"
#include "brigade/rpc/proto_conversion.h"
#include "brigade/rpc/tls_probe.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;

// Longer than the pauses between gRPC's attempts to connect, so that a server that has come back is
// found in the first call.
constexpr milliseconds kConnectTime{500};
constexpr milliseconds kKeyLookUpTime{1000};
constexpr milliseconds kKeyProbeTime{1000};

milliseconds time_until(MessageClient::Time deadline, milliseconds most) {
  const auto now = std::chrono::steady_clock::now();
  if (deadline <= now) return milliseconds(0);
  return std::min(std::chrono::ceil<milliseconds>(deadline - now), most);
}

}  // namespace

ServerConnection::ServerConnection(const std::string& address,
                                   const std::optional<cluster::ClusterKey>& key)
    : address_(cluster::parse_address(address)), key_(key) {
  require_key_beyond_loopback(address_, key_ ? KeyState::kPresent : KeyState::kAbsent,
                              "connect to");
}

std::shared_ptr<grpc::Channel> ServerConnection::channel(Time deadline) {
  std::shared_ptr<grpc::Channel> channel;
  {
    const concurrency::MutexLock lock(mutex_);
    if (!channel_) channel_ = make_channel(connect_text(address_), key_);
    channel = channel_;
  }
  // gRPC makes progress with a connection only while a caller waits for it.
  if (channel->GetState(true) != GRPC_CHANNEL_READY) {
    channel->WaitForConnected(std::chrono::system_clock::now() +
                              time_until(deadline, kConnectTime));
  }
  return channel;
}

void ServerConnection::fail(const std::shared_ptr<grpc::Channel>& used, const grpc::Status& status,
                            Time deadline) {
  if (is_ours(status)) {
    record_answer();
    throw_error(status);
  }
  const bool was_connected = used->GetState(false) == GRPC_CHANNEL_READY;
  const bool is_slow =
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && was_connected && may_be_slow();
  if (!is_slow) drop(used);
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      throw Error(ErrorCode::kDeadlineExceeded, "The server at ", address_,
                  " did not answer in time: see whether it runs.");
    case grpc::StatusCode::UNIMPLEMENTED:
      throw Error(ErrorCode::kFailedPrecondition, "What answers at ", address_,
                  " is no such server of Brigade (", status.error_message(), ").");
    default:
      break;
  }
  if (!was_connected && has_another_key(deadline)) {
    throw Error(ErrorCode::kPermissionDenied,
                "The cluster key of this process differs from that of the server at ", address_,
                ", or only one of the two has one.");
  }
  throw Error(ErrorCode::kUnavailable, "The connection to the server at ", address_, " failed (",
              status.error_message(), ").");
}

void ServerConnection::record_answer() {
  const concurrency::MutexLock lock(mutex_);
  unanswered_ = 0;
}

/// Whether a connection without a timely answer may still be good, since a large message fills it.
/// A connection whose peer's machine is lost looks the same, so the number of such answers is
/// limited.
bool ServerConnection::may_be_slow() {
  constexpr int kUnanswered = 3;
  const concurrency::MutexLock lock(mutex_);
  return ++unanswered_ < kUnanswered;
}

void ServerConnection::drop(const std::shared_ptr<grpc::Channel>& used) {
  const concurrency::MutexLock lock(mutex_);
  if (channel_ != used) return;
  channel_.reset();
  unanswered_ = 0;
}

bool ServerConnection::has_another_key(Time deadline) const {
  if (!key_) return false;
  // The look-up has its own limit, since the system's may take any time.
  const std::string host = cluster::loopback_address(address_.host).value_or(address_.host);
  const auto found = cluster::look_up({host}, time_until(deadline, kKeyLookUpTime));
  const auto& addresses = found.at(host).addresses;
  if (addresses.empty()) return false;
  const cluster::Address first{.host = addresses.front(), .port = address_.port};
  const milliseconds time = time_until(deadline, kKeyProbeTime);
  return time.count() > 0 &&
         probe_tls(first, cluster::make_tls_identity(*key_), time) == TlsVerdict::kRefused;
}

}  // namespace brigade::rpc

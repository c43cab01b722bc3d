#pragma once

#include <chrono>

#include "brigade/cluster/address.h"
#include "brigade/cluster/cluster_key.h"

namespace brigade::rpc {

/// What a TLS handshake says of who listens at an address.
enum class TlsVerdict {
  kSameKey,  ///< its certificate comes from this key
  kRefused,  ///< it has another key or none, or speaks no TLS
  kUnknown   ///< nobody answers, or the connection broke
};

/// Shakes hands once, and hangs up. gRPC says of a handshake that failed only what its library's
/// text is; a program that has to know whether a key is the wrong one asks here. Returns after
/// `timeout` at the latest, plus the time that the system takes to look a host's name up.
TlsVerdict probe_tls(const cluster::Address& address, const cluster::TlsIdentity& identity,
                     std::chrono::milliseconds timeout);

}  // namespace brigade::rpc

#pragma once

#include <chrono>

#include "brigade/cluster/address.h"
#include "brigade/cluster/cluster_key.h"

namespace brigade::rpc {

/// What a TLS handshake shows about the server at an address.
enum class TlsVerdict {
  kSameKey,  ///< its certificate comes from this key
  kRefused,  ///< it has another key or none, or speaks no TLS
  kUnknown   ///< no answer, or the connection broke
};

/// Makes one TLS handshake and closes the connection. gRPC reports a failed handshake only as text;
/// this function says whether the key is the wrong one. Returns after `timeout` at the latest,
/// plus the time of the host name's look-up.
TlsVerdict probe_tls(const cluster::Address& address, const cluster::TlsIdentity& identity,
                     std::chrono::milliseconds timeout);

}  // namespace brigade::rpc

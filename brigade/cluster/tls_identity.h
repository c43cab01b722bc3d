#pragma once

#include <chrono>

#include "brigade/cluster/cluster_key.h"

namespace brigade::cluster {

/// `make_tls_identity(key)` at the time `now`. Certificates are valid from 2020 to 2119 whatever
/// the time is, so that hosts with different clocks accept each other. Throws kFailedPrecondition,
/// naming the date, if the clock is outside of that range: handshakes would fail as with a wrong
/// key.
TlsIdentity make_tls_identity(const ClusterKey& key, std::chrono::system_clock::time_point now);

}  // namespace brigade::cluster

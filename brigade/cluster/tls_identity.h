#pragma once

#include <chrono>

#include "brigade/cluster/cluster_key.h"

namespace brigade::cluster {

/// `make_tls_identity(key)` as it would be at `now`. Certificates hold from 2020 to 2119, whatever
/// the time is, so that hosts whose clocks disagree understand each other. Throws
/// kFailedPrecondition, naming the date, where the clock is outside of that: peers would fail to
/// shake hands as if one had another key.
TlsIdentity make_tls_identity(const ClusterKey& key, std::chrono::system_clock::time_point now);

}  // namespace brigade::cluster

#pragma once

#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// What `brigade launch` told this process (launch_environment.h); nothing without
/// BRIGADE_RENDEZVOUS. The launcher holds the meeting point. Throws kInvalidArgument, naming the
/// variable that is missing or wrong.
std::optional<ClusterConfig> resolve_launched(const Environment& environment);

}  // namespace brigade::cluster

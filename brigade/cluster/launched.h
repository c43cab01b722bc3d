#pragma once

#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// The cluster that `brigade launch` set up for this process (launch_environment.h); nothing
/// without BRIGADE_RENDEZVOUS. The launcher serves the rendezvous. Throws kInvalidArgument, naming
/// the missing or wrong variable.
std::optional<ClusterConfig> resolve_launched(const Environment& environment);

}  // namespace brigade::cluster

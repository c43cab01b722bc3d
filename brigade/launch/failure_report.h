#pragma once

#include <string>

#include "brigade/launch/generation.h"
#include "brigade/launch/line_router.h"
#include "brigade/launch/rank_failure.h"

namespace brigade::launch {

/// Describes a failed process at the time when the failure is noticed: its last lines of output,
/// and the state of every other process. The text names `reason` instead of `status`.
RankFailure describe_failure(const RankProcess& failed, const ExitStatus& status,
                             const std::string& reason, const Generation& generation,
                             const LineRouter& router);

/// Adds how the other processes that were running then have ended. Call it when all have ended.
void add_endings(RankFailure& failure, const Generation& generation);

}  // namespace brigade::launch

#pragma once

#include <string>

#include "brigade/launch/rank_failure.h"
#include "brigade/launch/generation.h"
#include "brigade/launch/line_router.h"

namespace brigade::launch {

/// What is to be told of a process that has failed, at the moment when that is noticed: its last
/// words, and what each of the others is doing. `reason` is said in place of `status`.
RankFailure describe_failure(const RankProcess& failed, const ExitStatus& status,
                         const std::string& reason, const Generation& generation,
                         const LineRouter& router);

/// Adds, when all have ended, how those ended that were running then.
void add_endings(RankFailure& failure, const Generation& generation);

}  // namespace brigade::launch

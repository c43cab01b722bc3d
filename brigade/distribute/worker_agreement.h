#pragma once

#include <string_view>

#include "brigade/comm/worker_facts.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// Texts for the error message: "optimizers", "make the same optimizer in every worker".
struct Compared {
  std::string_view what;
  std::string_view advice;
};

/// Checks that options which must be equal in all workers are equal. Workers that compute different
/// updates would end with different weights, and workers that count steps differently would wait
/// for each other forever. Call it wherever a program passes such options; include every option
/// that decides values or collective calls, and leave out options that may differ (paths, logging).
///
/// A collective of the workers, outside of `Strategy::run`; does nothing if `workers` is null.
/// Throws kInvalidArgument in every worker if a fact of one worker differs from worker 0's, naming
/// the first such fact, both workers and both values.
void check_agreement(const WorkerGroup* workers, const comm::Facts& own, const Compared& compared);

}  // namespace brigade::distribute

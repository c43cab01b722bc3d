#pragma once

#include "brigade/io/state_tree.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// Throws kInvalidArgument for a number that is out of its range, and if `tasks` training tasks can
/// never make a step of synchronous training.
void check_job(const JobConfig& job, int tasks);

/// A job's configuration as `ParameterStore` keeps it: {"mode", "staleness",
/// "replicas_to_aggregate", "total_replicas"}, and "staleness_aware" if it is true.
io::StateTree to_state(const JobConfig& job);
/// The inverse. Throws kInvalidArgument for a state that `to_state` cannot have written.
JobConfig job_from_state(const io::StateTree& state);
/// `JobConfig::staleness_aware` of such a state; false for that of a store without a job.
bool is_staleness_aware(const io::StateTree& state);

}  // namespace brigade::ps

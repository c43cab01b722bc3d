#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "brigade/cluster/task.h"
#include "brigade/ps/paired_service.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// A replicated parameter server as one service: calls go to the process that acts. When that does
/// not answer, or no longer acts, the call throws kUnavailable, and the next one looks for the
/// process that acts, and votes as `task`, who calls. Its tokens are those of one process, so after
/// a change the caller gets NotMemberError, and joins again.
///
/// Calls to a process that was replaced, which may never answer, end with kUnavailable.
///
/// Thread-safety: all functions from any thread.
///
/// `connect`: makes a connection to each process, any number of times. Throws what they throw, and
/// kInvalidArgument unless there are processes.
std::unique_ptr<ParameterService> make_replicated_service(
    cluster::Task task, std::vector<std::function<std::unique_ptr<PairedService>()>> connect);

}  // namespace brigade::ps

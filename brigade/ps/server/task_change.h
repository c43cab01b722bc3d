#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "brigade/cluster/task.h"

namespace brigade::ps {

/// What happens to a task's membership of a server or a coordinator.
enum class TaskChange {
  kJoined,
  kReplaced,  ///< a later incarnation joins
  kLost,      ///< it was silent for the length of its lease
  kFinished   ///< it left
};

/// Writes a line about the change to the log, as a warning if the task is lost. `observer`: the
/// server or coordinator. `after_loss`: a sentence that says what a loss means for the others.
void log_task_change(std::string_view observer, TaskChange change, const cluster::Task& task,
                     std::int64_t incarnation, std::chrono::milliseconds lease,
                     std::string_view after_loss);

}  // namespace brigade::ps

#include "brigade/ps/server/task_change.h"

#include <string>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::ps {

void log_task_change(std::string_view observer, TaskChange change, const cluster::Task& task,
                     std::int64_t incarnation, std::chrono::milliseconds lease,
                     std::string_view after_loss) {
  const std::string who = base::str_cat(observer, ": ", cluster::to_string(task));
  switch (change) {
    case TaskChange::kJoined:
      base::log_info(who, " has joined as incarnation ", incarnation, ".");
      return;
    case TaskChange::kReplaced:
      base::log_info(who, ", incarnation ", incarnation, ", is replaced.");
      return;
    case TaskChange::kLost:
      base::log_warning(who, " is lost: it was silent for ",
                        static_cast<double>(lease.count()) / 1000, " s. ", after_loss);
      return;
    case TaskChange::kFinished:
      base::log_info(who, " has finished.");
      return;
  }
}

}  // namespace brigade::ps

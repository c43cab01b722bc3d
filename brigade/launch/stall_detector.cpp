#include "brigade/launch/stall_detector.h"

#include "brigade/base/strings.h"
#include "brigade/launch/process_tree.h"

namespace brigade::launch {

namespace {

constexpr std::chrono::seconds kInterval{1};
// A check that is this late shows that this process was stopped too: earlier checks do not count.
constexpr std::chrono::seconds kLate{3};

std::optional<pid_t> stopped_process(pid_t shim) {
  for (const std::optional<pid_t> pid : {std::optional(shim), first_child_of(shim)}) {
    const auto stat = pid ? stat_of(*pid) : std::nullopt;
    if (stat && stat->state == 'T') return pid;
  }
  return std::nullopt;
}

}  // namespace

void StallDetector::begin(Time now) {
  stopped_.clear();
  have_all_joined_ = false;
  next_look_ = now + kInterval;
}

bool StallDetector::is_due(Time now) {
  if (now < next_look_) return false;
  if (now > next_look_ + kLate) stopped_.clear();
  next_look_ = now + kInterval;
  return true;
}

std::optional<std::string> StallDetector::look(pid_t shim, Time now) {
  const auto pid = stopped_process(shim);
  if (!pid) {
    stopped_.erase(shim);
    return std::nullopt;
  }
  const Stop seen{now, times_off_core(*pid)};
  Stop& stop = stopped_.emplace(shim, seen).first->second;
  if (stop.times_off_core != seen.times_off_core) stop = seen;  // it ran between two stops
  if (now - stop.since < patience_) return std::nullopt;
  const std::string time = base::str_cat(static_cast<double>(patience_.count()) / 1e3, " s");
  const std::string state = base::str_cat("stopped (SIGSTOP, pid ", *pid, ")");
  if (have_all_joined_)
    return base::str_cat("it has not been heard from for ", time, ": it is ", state);
  return base::str_cat("it was ", state, " for ", time, " before all had joined");
}

}  // namespace brigade::launch

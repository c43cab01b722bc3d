#include "brigade/launch/standstill_watch.h"

#include "brigade/base/strings.h"
#include "brigade/launch/process_stat.h"

namespace brigade::launch {

namespace {

constexpr std::chrono::seconds kInterval{1};
// This process stood still too: what it did not see does not count.
constexpr std::chrono::seconds kLate{3};

std::optional<pid_t> stopped_process(pid_t shim) {
  for (const std::optional<pid_t> pid : {std::optional(shim), first_child_of(shim)}) {
    const auto stat = pid ? stat_of(*pid) : std::nullopt;
    if (stat && stat->state == 'T') return pid;
  }
  return std::nullopt;
}

}  // namespace

void StandstillWatch::begin(Time now) {
  stopped_since_.clear();
  next_look_ = now + kInterval;
}

bool StandstillWatch::is_due(Time now) {
  if (now < next_look_) return false;
  if (now > next_look_ + kLate) stopped_since_.clear();
  next_look_ = now + kInterval;
  return true;
}

std::optional<std::string> StandstillWatch::look(pid_t shim, Time now) {
  const auto pid = stopped_process(shim);
  if (!pid) {
    stopped_since_.erase(shim);
    return std::nullopt;
  }
  const Time since = stopped_since_.emplace(shim, now).first->second;
  if (now - since < patience_) return std::nullopt;
  return base::str_cat("it was stopped (SIGSTOP, pid ", *pid, ") for ",
                       static_cast<double>(patience_.count()) / 1e3, " s before all had met");
}

}  // namespace brigade::launch

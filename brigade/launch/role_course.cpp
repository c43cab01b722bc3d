#include "brigade/launch/role_course.h"

namespace brigade::launch {

void RoleCourse::record_end(int process, bool is_success, Time now) {
  if (process >= roles_.workers) return;
  if (process == 0 && is_success) is_chief_done_ = true;
  ended_workers_.insert(process);
  const bool is_last = static_cast<int>(ended_workers_.size()) == roles_.workers;
  if (is_last && !workers_ended_) workers_ended_ = now;
}

bool RoleCourse::may_restart(int process) const {
  if (!is_chief_done_) return true;
  return is_server(roles_, process) && !workers_ended_;
}

RoleCourse::ServerOrder RoleCourse::next_order(Time now) {
  if (now < next_deadline()) return ServerOrder::kNone;
  if (kill_at_) {
    has_killed_ = true;
    return ServerOrder::kKill;
  }
  kill_at_ = now + grace_;
  return ServerOrder::kSignal;
}

RoleCourse::Time RoleCourse::next_deadline() const {
  if (!workers_ended_ || has_killed_) return Time::max();
  if (kill_at_) return *kill_at_;
  return is_stopping_ ? *workers_ended_ : *workers_ended_ + grace_;
}

}  // namespace brigade::launch

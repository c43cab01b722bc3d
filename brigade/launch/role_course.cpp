#include "brigade/launch/role_course.h"

#include <algorithm>

namespace brigade::launch {

RoleCourse::Time RoleCourse::Dismissal::next_deadline(const std::optional<Time>& first) const {
  if (has_killed) return Time::max();
  return kill_at.value_or(first.value_or(Time::max()));
}

RoleCourse::Order RoleCourse::Dismissal::next_order(const std::optional<Time>& first, Time now,
                                                    std::chrono::milliseconds grace) {
  if (now < next_deadline(first)) return Order::kNone;
  if (kill_at) {
    has_killed = true;
    return Order::kKill;
  }
  kill_at = now + grace;
  return Order::kSignal;
}

void RoleCourse::record_end(int process, bool is_success, Time now) {
  if (is_server(roles_, process)) {
    if (is_success) succeeded_servers_.insert(process);
  } else if (is_worker(roles_, process)) {
    if (is_chief(roles_, process) && is_success) is_chief_done_ = true;
    ended_workers_.insert(process);
    const bool is_last = static_cast<int>(ended_workers_.size()) == num_workers(roles_);
    if (is_last && !workers_ended_) workers_ended_ = now;
  }
  const bool is_served = static_cast<int>(succeeded_servers_.size()) < num_servers(roles_);
  if (is_chief_done_ && !is_served && !training_ended_) training_ended_ = now;
}

bool RoleCourse::may_restart(int process) const {
  if (!is_chief_done_) return true;
  return is_server(roles_, process) && !workers_ended_;
}

std::optional<RoleCourse::Time> RoleCourse::servers_due() const {
  if (!workers_ended_ || is_stopping_) return workers_ended_;
  return *workers_ended_ + grace_;
}

std::optional<RoleCourse::Time> RoleCourse::workers_due() const {
  if (!training_ended_ || workers_ended_ || is_stopping_) return std::nullopt;
  return *training_ended_ + grace_;
}

RoleCourse::Time RoleCourse::next_deadline() const {
  // Workers that have ended get no more orders.
  const Time for_workers = workers_ended_ ? Time::max() : workers_.next_deadline(workers_due());
  return std::min(servers_.next_deadline(servers_due()), for_workers);
}

}  // namespace brigade::launch

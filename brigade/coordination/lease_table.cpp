#include "brigade/coordination/lease_table.h"

#include "brigade/base/error.h"

namespace brigade::coordination {

LeaseTable::LeaseTable(std::chrono::milliseconds term) : term_(term) {
  check_argument(term.count() > 0, "A lease lasts for ", term.count(),
                 " ms: its term must be positive.");
}

Incarnation LeaseTable::grant(const std::string& task, Time now) {
  Entry& entry = tasks_[task];
  ++entry.incarnation;
  entry.expires = now + term_;
  return {.task = task, .number = entry.incarnation};
}

bool LeaseTable::reclaim(const Incarnation& holder, Time now) {
  check_argument(holder.number >= 1, "Incarnation ", holder.number, " of ", holder.task,
                 " is reclaimed: they count from 1.");
  const auto known = tasks_.find(holder.task);
  if (known != tasks_.end() && known->second.incarnation > holder.number) return false;
  tasks_[holder.task] = {.incarnation = holder.number, .expires = now + term_};
  return true;
}

bool LeaseTable::renew(const Incarnation& holder, Time now) {
  if (!is_held(holder)) return false;
  std::optional<Time>& expires = tasks_.at(holder.task).expires;
  // It may be late and not reported yet. To extend it would be to decide by who is called first.
  if (*expires <= now) return false;
  expires = now + term_;
  return true;
}

void LeaseTable::release(const Incarnation& holder) {
  if (is_held(holder)) tasks_.at(holder.task).expires.reset();
}

std::vector<Incarnation> LeaseTable::expire(Time now) {
  std::vector<Incarnation> lost;
  for (auto& [task, entry] : tasks_) {
    if (!entry.expires || *entry.expires > now) continue;
    entry.expires.reset();
    lost.push_back({.task = task, .number = entry.incarnation});
  }
  return lost;
}

bool LeaseTable::is_held(const Incarnation& holder) const {
  const auto known = tasks_.find(holder.task);
  return known != tasks_.end() && known->second.expires &&
         known->second.incarnation == holder.number;
}

std::optional<LeaseTable::Time> LeaseTable::next_expiry() const {
  std::optional<Time> next;
  for (const auto& [task, entry] : tasks_)
    if (entry.expires && (!next || *entry.expires < *next)) next = entry.expires;
  return next;
}

std::vector<Incarnation> LeaseTable::holders() const {
  std::vector<Incarnation> held;
  for (const auto& [task, entry] : tasks_)
    if (entry.expires) held.push_back({.task = task, .number = entry.incarnation});
  return held;
}

io::StateTree LeaseTable::save() const {
  io::StateTree state = io::StateTree::dict();
  for (const auto& [task, entry] : tasks_) state[task] = entry.incarnation;
  return state;
}

void LeaseTable::restore(const io::StateTree& state) {
  std::map<std::string, Entry> tasks;
  for (const auto& [task, number] : state.as_dict()) {
    const std::int64_t incarnation = number.as_int64();
    check_argument(incarnation >= 1, "The leases have incarnation ", incarnation, " for ", task,
                   ": they count from 1.");
    tasks[task].incarnation = incarnation;
  }
  tasks_ = std::move(tasks);
}

}  // namespace brigade::coordination

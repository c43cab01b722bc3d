#include "brigade/coordination/task_registry.h"

#include <algorithm>
#include <set>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::coordination {
namespace {

// How long a task that was lost may join again before the job ends without it.
constexpr int kTermsOfGrace = 3;

}  // namespace

TaskRegistry::TaskRegistry(std::vector<std::string> tasks, std::chrono::milliseconds term)
    : tasks_(std::move(tasks)), term_(term), leases_(term) {
  check_argument(!tasks_.empty(), "A job has no task that trains: it needs one at least.");
  std::set<std::string_view> names;
  for (const std::string& task : tasks_)
    check_argument(names.insert(task).second, "Task ", base::quoted(task),
                   " occurs twice in a job.");
}

TaskRegistry::Joined TaskRegistry::join(const std::string& task, std::int64_t incarnation,
                                        const std::string& token, Time now) {
  check_argument(incarnation >= 0, "Task ", base::quoted(task), " joins as incarnation ",
                 incarnation, ": they count from 1, and 0 asks for a new one.");
  const auto used = tokens_.find(token);
  check_argument(!token.empty() && (used == tokens_.end() || used->second.task == task),
                 "The token for ", base::quoted(task),
                 " is empty or another task's: each join needs a new one.");
  if (std::ranges::find(tasks_, task) == tasks_.end())
    return {.verdict = JoinVerdict::kUnknownTask};
  Incarnation holder{.task = task, .number = incarnation};
  if (incarnation == 0) {
    holder = leases_.grant(task, now);
  } else if (!leases_.reclaim(holder, now)) {
    return {.verdict = JoinVerdict::kReplaced};
  }
  std::erase_if(tokens_, [&](const auto& each) { return each.second.task == task; });
  tokens_.emplace(token, holder);
  standings_[task] = {};
  if (task == tasks_.front()) chief_left_.reset();
  return {.verdict = JoinVerdict::kJoined, .holder = std::move(holder)};
}

std::optional<Incarnation> TaskRegistry::authenticate(std::string_view token, Time now) {
  const auto found = tokens_.find(token);
  if (found == tokens_.end() || !leases_.renew(found->second, now)) return std::nullopt;
  return found->second;
}

void TaskRegistry::leave(std::string_view token, Time now) {
  const auto found = tokens_.find(token);
  if (found == tokens_.end()) return;
  leases_.release(found->second);
  standings_[found->second.task] = {.has_left = true};
  if (found->second.task == tasks_.front()) chief_left_ = now;
  tokens_.erase(found);
}

std::vector<Incarnation> TaskRegistry::expire(Time now) {
  std::vector<Incarnation> lost = leases_.expire(now);
  for (const Incarnation& each : lost) standings_[each.task].lost = now;
  std::erase_if(tokens_, [&](const auto& each) {
    return std::ranges::find(lost, each.second) != lost.end();
  });
  return lost;
}

std::optional<TaskRegistry::Time> TaskRegistry::next_expiry() const {
  return leases_.next_expiry();
}

int TaskRegistry::rank(std::string_view task) const {
  const auto found = std::ranges::find(tasks_, task);
  if (found == tasks_.end())
    throw Error(ErrorCode::kNotFound, "Task ", base::quoted(task),
                " is none of the job's, which are ", base::listed(tasks_, ", "), ".");
  return static_cast<int>(found - tasks_.begin());
}

bool TaskRegistry::has_finished(std::string_view task) const {
  const auto found = standings_.find(task);
  return found != standings_.end() && found->second.has_left;
}

bool TaskRegistry::is_expected(std::string_view task, Time now) const {
  const auto found = standings_.find(task);
  if (found == standings_.end()) return now < *chief_left_ + term_;
  const std::optional<Time>& lost = found->second.lost;
  return lost && now < *lost + kTermsOfGrace * term_;
}

bool TaskRegistry::is_finished(Time now) const {
  if (!chief_left_ || !leases_.holders().empty()) return false;
  if (earliest_end_ && now < *earliest_end_) return false;
  return std::ranges::none_of(tasks_,
                              [&](const std::string& task) { return is_expected(task, now); });
}

void TaskRegistry::restore_finished(std::string_view task, Time now) {
  const int restored = rank(task);
  standings_[std::string(task)] = {.has_left = true};
  earliest_end_ = now + kTermsOfGrace * term_;
  if (restored == 0) chief_left_ = now;
}

}  // namespace brigade::coordination

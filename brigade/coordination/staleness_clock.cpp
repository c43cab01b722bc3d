#include "brigade/coordination/staleness_clock.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::coordination {

StalenessClock::StalenessClock(std::optional<std::int64_t> bound) : bound_(bound) {
  check_argument(!bound || *bound >= 0, "The bound of staleness is ", bound.value_or(0),
                 " steps: it must be 0 or more, or unset for no bound.");
}

void StalenessClock::join(int worker) {
  const auto before = finished_.extract(worker);
  const bool is_alone = finished_.empty() && !before.empty();
  finished_.emplace(worker, is_alone ? before.mapped() : finished_by_all());
}

void StalenessClock::leave(int worker) {
  finished_.erase(worker);
}

void StalenessClock::finish_step(int worker) {
  check_state(may_begin(worker), "Worker ", worker, " finished step ", finished_by(worker) + 1,
              ", which it may not have begun: the slowest worker has finished ", finished_by_all(),
              " and the bound is ", bound_.value_or(0), ".");
  ++finished_.at(worker);
}

bool StalenessClock::may_begin(int worker) const {
  const std::int64_t own = finished_by(worker);
  return !bound_ || own - finished_by_all() <= *bound_;
}

std::vector<int> StalenessClock::slowest() const {
  std::vector<int> workers;
  for (const auto& [worker, finished] : finished_)
    if (finished == finished_by_all()) workers.push_back(worker);
  return workers;
}

std::int64_t StalenessClock::finished_by_all() const {
  const auto fewest =
      std::ranges::min_element(finished_, {}, [](const auto& entry) { return entry.second; });
  return fewest == finished_.end() ? 0 : fewest->second;
}

std::int64_t StalenessClock::finished_by(int worker) const {
  const auto known = finished_.find(worker);
  check_state(known != finished_.end(), "Worker ", worker, " has not joined, or was lost.");
  return known->second;
}

}  // namespace brigade::coordination

#include "brigade/coordination/step_decider.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::coordination {

StepDecider::StepDecider(SyncOptions options, std::int64_t first_step)
    : options_(options), step_(first_step) {
  check_argument(options.replicas_to_aggregate > 0 && options.total_replicas > 0,
                 "Synchronous training aggregates ", options.replicas_to_aggregate, " of ",
                 options.total_replicas, " replicas: both numbers must be positive.");
}

std::optional<StepDecider::Token> StepDecider::token(int worker) const {
  const int index = count_of(worker);
  if (index >= quota()) return std::nullopt;
  return Token{.step = step_, .index = index};
}

ContributionVerdict StepDecider::contribute(int worker, const Token& token) {
  check_argument(worker >= 0 && token.index >= 0 && token.index < quota(), "Worker ", worker,
                 " contributes gradient ", token.index, " of a step: a worker may contribute ",
                 quota(), ", counted from 0.");
  check_argument(token.step <= step_, "Worker ", worker, " contributes to step ", token.step,
                 ", and step ", step_, " is in progress.");
  if (token.step < step_) return ContributionVerdict::kStale;
  const int next = count_of(worker);
  check_argument(token.index <= next, "Worker ", worker, " contributes gradient ", token.index,
                 " of step ", step_, " before gradient ", next, ".");
  const bool is_new = contributions_.insert({.worker = worker, .index = token.index}).second;
  return is_new ? ContributionVerdict::kAccepted : ContributionVerdict::kDuplicate;
}

std::optional<StepDecision> StepDecider::decide() {
  if (missing() > 0) return std::nullopt;
  StepDecision decision{.step = step_,
                        .contributions = {contributions_.begin(), contributions_.end()}};
  contributions_.clear();
  ++step_;
  return decision;
}

int StepDecider::missing() const {
  return std::max(0, options_.replicas_to_aggregate - static_cast<int>(contributions_.size()));
}

int StepDecider::quota() const {
  return (options_.replicas_to_aggregate + options_.total_replicas - 1) / options_.total_replicas;
}

int StepDecider::count_of(int worker) const {
  return static_cast<int>(std::ranges::count(contributions_, worker, &Contribution::worker));
}

io::StateTree StepDecider::save() const {
  return StepDecision{.step = step_,
                      .contributions = {contributions_.begin(), contributions_.end()}}
      .save();
}

void StepDecider::restore(const io::StateTree& state) {
  const StepDecision saved = StepDecision::restore(state);
  StepDecider restored(options_, saved.step);
  for (const auto& [worker, index] : saved.contributions) {
    const ContributionVerdict verdict =
        restored.contribute(worker, {.step = saved.step, .index = index});
    check_argument(verdict == ContributionVerdict::kAccepted,
                   "A saved step has the same contribution twice.");
  }
  *this = std::move(restored);
}

io::StateTree StepDecision::save() const {
  io::StateTree state;
  state["step"] = step;
  io::StateTree& saved = state["contributions"] = io::StateTree::list();
  for (const auto& [worker, index] : contributions) {
    io::StateTree pair;
    pair.push_back(worker);
    pair.push_back(index);
    saved.push_back(std::move(pair));
  }
  if (learning_rate) state["learning_rate"] = *learning_rate;
  return state;
}

StepDecision StepDecision::restore(const io::StateTree& state) {
  StepDecision decision{.step = state.as_int64("step"), .contributions = {}};
  if (state.has("learning_rate")) {
    decision.learning_rate = state.as_double("learning_rate");
    check_argument(*decision.learning_rate >= 0, "A saved step has the learning rate ",
                   *decision.learning_rate, ": it must be at least 0.");
  }
  for (const io::StateTree& pair : state.as_list("contributions")) {
    const std::int64_t worker = pair.as_int64(0), index = pair.as_int64(1);
    constexpr std::int64_t kLast = std::numeric_limits<int>::max();
    check_argument(worker <= kLast && index <= kLast && worker >= 0 && index >= 0,
                   "A saved step has gradient ", index, " of worker ", worker, ".");
    decision.contributions.push_back(
        {.worker = static_cast<int>(worker), .index = static_cast<int>(index)});
  }
  return decision;
}

}  // namespace brigade::coordination

#include "brigade/ps/server/step_gate.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::ps {

StepGate::StepGate(const JobConfig& job, std::vector<std::string> tasks, std::int64_t step,
                   std::optional<coordination::StepDecision> last)
    : mode_(job.mode),
      tasks_(std::move(tasks)),
      clock_(job.mode == UpdateMode::kBounded ? std::optional(job.staleness) : std::nullopt),
      decider_(job.sync, step),
      last_(std::move(last)) {}

bool StepGate::report(int worker, const BeginStepRequest& request) {
  check_argument(request.finished >= 0, tasks_.at(worker), " has finished ", request.finished,
                 " steps.");
  check_argument(!request.contribution || mode_ == UpdateMode::kSync, tasks_.at(worker),
                 " contributes a gradient, and the job's updates are not synchronous.");
  const std::int64_t finished_before = clock_.finished_by_all();
  if (mode_ == UpdateMode::kBounded) report_finished(worker, request.finished);
  if (request.contribution) contribute(worker, *request.contribution);
  return clock_.finished_by_all() != finished_before;
}

void StepGate::report_finished(int worker, std::int64_t finished) {
  const auto known = finished_.find(worker);
  if (known == finished_.end()) {
    clock_.join(worker);
    finished_.emplace(worker, finished);
    return;
  }
  check_argument(finished <= known->second + 1, tasks_.at(worker), " has finished ", finished,
                 " steps and had finished ", known->second, ": it asks before each step.");
  if (finished <= known->second) return;
  clock_.finish_step(worker);
  known->second = finished;
}

void StepGate::contribute(int worker, const coordination::StepDecider::Token& token) {
  // The decider begins a step before workers may receive its tokens.
  const std::int64_t step = unconfirmed_ ? unconfirmed_->step : decider_.step();
  check_argument(token.step <= step, tasks_.at(worker), " contributes to step ", token.step,
                 ", and step ", step, " is in progress.");
  decider_.contribute(worker, token);
  if (auto decision = decider_.decide()) unconfirmed_ = std::move(decision);
}

void StepGate::leave(int worker) {
  clock_.leave(worker);
  finished_.erase(worker);
}

void StepGate::confirm(const coordination::StepDecision& decision) {
  if (!unconfirmed_ || unconfirmed_->step != decision.step ||
      unconfirmed_->contributions != decision.contributions)
    return;
  unconfirmed_.reset();
  last_ = decision;
}

BeginStepReply StepGate::reply(int worker, const std::set<int>& present,
                               const std::set<int>& finished) const {
  switch (mode_) {
    case UpdateMode::kAsync:
      return {.may_begin = true};
    case UpdateMode::kBounded:
      return bounded_reply(worker);
    case UpdateMode::kSync:
      return sync_reply(worker, present, finished);
  }
  throw Error(ErrorCode::kInternal, "A job has an unknown mode of updates.");
}

BeginStepReply StepGate::bounded_reply(int worker) const {
  if (clock_.may_begin(worker)) return {.may_begin = true};
  BeginStepReply reply;
  for (const int slow : clock_.slowest()) reply.waiting_for.push_back(tasks_.at(slow));
  return reply;
}

BeginStepReply StepGate::sync_reply(int worker, const std::set<int>& present,
                                    const std::set<int>& finished) const {
  if (unconfirmed_) return {};  // it waits for the disk
  BeginStepReply reply{.token = decider_.token(worker)};
  reply.may_begin = reply.token.has_value();
  if (!reply.may_begin) {
    check_possible(finished);
    reply.waiting_for = missing_contributors(present, finished);
  } else if (last_ && last_->step + 1 == reply.token->step) {
    reply.decision = last_;
  }
  return reply;
}

/// Whether the others can still give what the step in progress needs.
void StepGate::check_possible(const std::set<int>& finished) const {
  std::int64_t expected = 0;
  std::vector<std::string> gone;
  for (int worker = 0; worker < static_cast<int>(tasks_.size()); ++worker) {
    const auto token = decider_.token(worker);
    if (!token) continue;
    if (finished.contains(worker))
      gone.push_back(tasks_[static_cast<std::size_t>(worker)]);
    else
      expected += decider_.quota() - token->index;
  }
  check_state(gone.empty() || expected >= decider_.missing(), "Step ", decider_.step(), " lacks ",
              decider_.missing(),
              " gradients, and these tasks have finished: ", base::join(gone, ", "),
              ". Let all workers end at the same step.");
}

std::vector<std::string> StepGate::missing_contributors(const std::set<int>& present,
                                                        const std::set<int>& finished) const {
  std::vector<std::string> there, absent;
  std::int64_t expected = 0;
  for (int worker = 0; worker < static_cast<int>(tasks_.size()); ++worker) {
    const auto token = decider_.token(worker);
    if (!token || finished.contains(worker)) continue;
    const bool is_present = present.contains(worker);
    (is_present ? there : absent).push_back(tasks_[static_cast<std::size_t>(worker)]);
    if (is_present) expected += decider_.quota() - token->index;
  }
  if (expected < decider_.missing()) there.insert(there.end(), absent.begin(), absent.end());
  return there;
}

}  // namespace brigade::ps

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/ps/server/server_core.h"

/// When a worker may begin its next step.
namespace brigade::ps {
namespace {

using coordination::StepDecision;

// Bounds a wait that a caller may ask for, so that sums with times do not overflow.
constexpr std::chrono::milliseconds kLongestStepWait = std::chrono::hours(1);

}  // namespace

/// A step that is decided with a gradient that this server does not have could never be applied.
void ServerCore::check_contribution(const Caller& from, const BeginStepRequest& request) const {
  if (!request.contribution || request.contribution->step > store_.step()) return;
  const auto& [step, index] = *request.contribution;
  // In one call: another worker's decision may end the step at any moment.
  check_argument(store_.offer_state(step, {.worker = from.rank, .index = index}) !=
                     ParameterStore::OfferState::kMissing,
                 from.holder.task, " contributes gradient ", index, " of step ", step,
                 ", which it has not pushed here: it pushes it to all servers first.");
}

/// A coordinator that was restarted does not know what an earlier life of the caller contributed,
/// and the caller does not either. That it was counted, the index of the caller's own says.
void ServerCore::report_earlier(const Caller& from, const BeginStepRequest& request) {
  if (!request.contribution || request.contribution->step != store_.step()) return;
  BeginStepRequest earlier{.finished = request.finished, .contribution = request.contribution};
  for (int index = 0; index < request.contribution->index; ++index) {
    if (store_.offer_state(request.contribution->step, {.worker = from.rank, .index = index}) !=
        ParameterStore::OfferState::kKept)
      return;  // the gate names the gap
    earlier.contribution->index = index;
    gate().report(from.rank, earlier);
  }
}

StepGate& ServerCore::gate() {
  if (!gate_) gate_.emplace(job_.value(), names_, store_.step(), store_.last_decision());
  return *gate_;
}

BeginStepReply ServerCore::begin_step(const std::string& token, const BeginStepRequest& request,
                                      Time deadline) {
  return serve([&] {
    const Time until =
        clock_.now() + std::clamp(request.wait, std::chrono::milliseconds(0), kLongestStepWait);
    Caller from;
    {
      const concurrency::MutexLock lock(mutex_);
      from = authenticate(token);
      check_state(options_.is_coordinator,
                  "Steps begin at the job's first parameter server, not at this one.");
      check_state(store_.is_ready(), kNotReadyYet);
      check_contribution(from, request);
      report_earlier(from, request);
      if (gate().report(from.rank, request)) changed_.notify_all();
    }
    for (;;) {
      confirm_decision(deadline);
      const concurrency::MutexLock lock(mutex_);
      check_open();
      check_held(from);
      BeginStepReply reply = gate_->reply(from.rank, present(), finished());
      if (reply.may_begin) return reply;
      const Time now = clock_.now(), machine_now = std::chrono::steady_clock::now();
      if (now >= until) return reply;
      if (machine_now >= deadline) {
        throw Error(ErrorCode::kDeadlineExceeded, "The deadline of ", from.holder.task,
                    " has passed while it waited for ",
                    reply.waiting_for.empty() ? std::string("the server's disk")
                                              : base::listed(reply.waiting_for, ", "),
                    " to begin its next step.");
      }
      if (!has_to_confirm())
        changed_.wait_until(mutex_, std::min(deadline, machine_now + (until - now)));
    }
  });
}

bool ServerCore::has_to_confirm() const {
  return gate_ && gate_->unconfirmed() && !is_confirming_;
}

void ServerCore::confirm_decision(Time deadline) {
  StepDecision decision;
  {
    const concurrency::MutexLock lock(mutex_);
    if (!has_to_confirm()) return;
    is_confirming_ = true;
    decision = *gate_->unconfirmed();
  }
  try {
    // All servers update with the same rate, no matter when each gets a new one.
    decision.learning_rate = store_.learning_rate();
    store_.apply(decision, deadline);
    decision = store_.last_decision().value();  // an earlier try may have had another rate
  } catch (...) {  // the next caller tries again: applying twice changes nothing
    end_confirming();
    throw;
  }
  {
    const concurrency::MutexLock lock(mutex_);
    gate_->confirm(decision);
    count_decided(decision);
  }
  end_confirming();
  snapshots_.consider();
}

void ServerCore::end_confirming() {
  const concurrency::MutexLock lock(mutex_);
  is_confirming_ = false;
  changed_.notify_all();
}

}  // namespace brigade::ps

#include "brigade/train/session/session_context.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/distribute/strategy.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

namespace {

constexpr std::size_t kMostTimers = 32;  // bits of a number

}  // namespace

SessionEnvironment completed(SessionEnvironment environment, const base::Clock& system_clock) {
  check_argument(environment.files != nullptr, "SessionEnvironment::files is null.");
  if (environment.clock == nullptr) environment.clock = &system_clock;
  if (!environment.wait) environment.wait = concurrency::interruptible_wait;
  return environment;
}

SessionContext::SessionContext(TrainingState& state, SessionEnvironment environment,
                               summary::SummaryWriter* summaries)
    : state_(state),
      environment_(completed(std::move(environment), system_clock_)),
      summaries_(summaries),
      spans_(*environment_.clock) {}

std::int64_t SessionContext::global_step() const {
  return state_.global_step();
}

bool SessionContext::broadcast_from_chief(bool is_due) const {
  return state_.strategy().broadcast_from_chief(std::int64_t{is_due}) != 0;
}

void SessionContext::request_stop(AtStop at_stop, RequestedBy by) {
  const Stop requested = at_stop == AtStop::kSave ? Stop::kSave : Stop::kDiscard;
  Stop expected = Stop::kNo;
  requested_stop_.compare_exchange_strong(expected, requested);
  if (state_.strategy().has_worker_collectives()) {
    if (by == RequestedBy::kEveryWorker && !is_in_chief_only_hook_) agree_before_next_step();
    return;
  }
  expected = Stop::kNo;
  agreed_stop_.compare_exchange_strong(expected, requested);
}

void SessionContext::agree_on_stop() {
  const distribute::Strategy& strategy = state_.strategy();
  if (!strategy.has_worker_collectives() || agreed_stop_ != Stop::kNo) return;
  if (!must_ask_ && carried_ && carried_->by_rank()) return use_known_requests();
  agreed_stop_ =
      static_cast<Stop>(strategy.agree_on_stop(static_cast<std::int64_t>(requested_stop_.load())));
}

void SessionContext::use_known_requests() {
  if (agreed_stop_ == Stop::kNo) agreed_stop_ = known_request();
}

// All workers know the same requests, or none does.
SessionContext::Stop SessionContext::known_request() const {
  if (!carried_ || !carried_->by_rank()) return Stop::kNo;
  return static_cast<Stop>(std::ranges::max(*carried_->by_rank()));
}

bool SessionContext::discards() const {
  const Stop agreed = agreed_stop_;
  return (agreed != Stop::kNo ? agreed : known_request()) == Stop::kDiscard;
}

void SessionContext::begin_step() {
  const distribute::Strategy& strategy = state_.strategy();
  if (!strategy.has_worker_collectives()) return;
  must_ask_ = false;
  carried_ = strategy.piggyback(comm::PiggybackUse::kStop, [this] {
    return static_cast<std::int64_t>(requested_stop_.load());
  });
  if (timers_.empty()) return;
  const bool is_chief = strategy.is_chief();
  due_ = strategy.piggyback(
      comm::PiggybackUse::kTimers,
      [this, is_chief, step = global_step() + 1] { return is_chief ? due_timers(step) : 0; });
}

void SessionContext::forget_carried() {
  carried_ = nullptr;
  due_ = nullptr;
}

std::size_t SessionContext::add_timer(Timer is_due) {
  check_state(timers_.size() < kMostTimers, "A session has at most ", kMostTimers, " timers.");
  timers_.push_back(std::move(is_due));
  return timers_.size() - 1;
}

std::int64_t SessionContext::due_timers(std::int64_t step) const {
  std::int64_t due = 0;
  for (std::size_t timer = 0; timer < timers_.size(); ++timer)
    due |= std::int64_t{timers_[timer](step)} << timer;
  return due;
}

bool SessionContext::is_due(std::size_t timer) const {
  if (due_ && due_->by_rank()) return ((due_->by_rank()->front() >> timer) & 1) != 0;
  return broadcast_from_chief(timers_.at(timer)(global_step()));
}

}  // namespace brigade::train

#include "brigade/train/session/session_context.h"

#include "brigade/base/error.h"
#include "brigade/train/session/interruptible_wait.h"

namespace brigade::train {

namespace {

SessionEnvironment completed(SessionEnvironment environment, const base::Clock& system_clock) {
  check_argument(environment.files != nullptr, "SessionEnvironment::files is null.");
  if (environment.clock == nullptr) environment.clock = &system_clock;
  if (!environment.wait) environment.wait = interruptible_wait;
  return environment;
}

}  // namespace

SessionContext::SessionContext(TrainingState& state, SessionEnvironment environment,
                               summary::SummaryWriter* summaries)
    : state_(state),
      environment_(completed(std::move(environment), system_clock_)),
      summaries_(summaries),
      spans_(*environment_.clock) {}

void SessionContext::request_stop(AtStop at_stop) {
  const Stop wish = at_stop == AtStop::kSave ? Stop::kSave : Stop::kDiscard;
  Stop expected = Stop::kNo;
  wish_.compare_exchange_strong(expected, wish);
  if (state_.strategy().num_workers() > 1) return;
  expected = Stop::kNo;
  agreed_.compare_exchange_strong(expected, wish);
}

void SessionContext::agree_on_stop() {
  const distribute::Strategy& strategy = state_.strategy();
  if (strategy.num_workers() == 1 || agreed_ != Stop::kNo) return;
  agreed_ = static_cast<Stop>(strategy.all_reduce_max(static_cast<std::int64_t>(wish_.load())));
}

AtStop SessionContext::at_stop() const {
  return agreed_ == Stop::kDiscard ? AtStop::kDiscard : AtStop::kSave;
}

void SessionContext::wait(std::chrono::milliseconds time) const {
  environment_.wait(time, cancel_);
}

}  // namespace brigade::train

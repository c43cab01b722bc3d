#include "brigade/train/session_context.h"

#include "brigade/base/error.h"
#include "brigade/train/interruptible_wait.h"

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
  Stop expected = Stop::kNo;
  stop_.compare_exchange_strong(expected, at_stop == AtStop::kSave ? Stop::kSave : Stop::kDiscard);
}

AtStop SessionContext::at_stop() const {
  return stop_ == Stop::kDiscard ? AtStop::kDiscard : AtStop::kSave;
}

void SessionContext::wait(std::chrono::milliseconds time) const {
  environment_.wait(time, cancel_);
}

}  // namespace brigade::train

#include "brigade/train/session_context.h"

#include "brigade/base/error.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::train {

namespace {

void wait_in_real_time(std::chrono::milliseconds time, const concurrency::CancelToken& cancel) {
  concurrency::Mutex mutex;
  concurrency::Condition changed;
  bool is_cancelled = false;
  const auto registration = cancel.on_cancel([&] {
    const concurrency::MutexLock lock(mutex);
    is_cancelled = true;
    changed.notify_all();
  });
  const auto deadline = std::chrono::steady_clock::now() + time;
  const concurrency::MutexLock lock(mutex);
  while (!is_cancelled && std::chrono::steady_clock::now() < deadline)
    changed.wait_until(mutex, deadline);
}

SessionEnvironment completed(SessionEnvironment environment, const base::Clock& system_clock) {
  check_argument(environment.files != nullptr, "SessionEnvironment::files is null.");
  if (environment.clock == nullptr) environment.clock = &system_clock;
  if (!environment.wait) environment.wait = wait_in_real_time;
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

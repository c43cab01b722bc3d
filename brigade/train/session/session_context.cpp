#include "brigade/train/session/session_context.h"

#include "brigade/base/error.h"
#include "brigade/distribute/strategy.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

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

void SessionContext::request_stop(AtStop at_stop) {
  const Stop requested = at_stop == AtStop::kSave ? Stop::kSave : Stop::kDiscard;
  Stop expected = Stop::kNo;
  requested_stop_.compare_exchange_strong(expected, requested);
  if (state_.strategy().has_worker_collectives()) return;
  expected = Stop::kNo;
  agreed_stop_.compare_exchange_strong(expected, requested);
}

void SessionContext::agree_on_stop() {
  const distribute::Strategy& strategy = state_.strategy();
  if (!strategy.has_worker_collectives() || agreed_stop_ != Stop::kNo) return;
  agreed_stop_ =
      static_cast<Stop>(strategy.all_reduce_max(static_cast<std::int64_t>(requested_stop_.load())));
}

}  // namespace brigade::train

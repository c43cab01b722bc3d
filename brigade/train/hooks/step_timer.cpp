#include "brigade/train/hooks/step_timer.h"

#include "brigade/base/error.h"

namespace brigade::train {

StepTimer::StepTimer(Every every, const base::Clock& clock) : every_(every), clock_(clock) {
  check_argument(!every.steps || *every.steps > 0, "Every::steps is ", every.steps.value_or(0),
                 "; it must be above 0.");
  check_argument(!every.time || every.time->count() > 0, "Every::time is ",
                 every.time.value_or(std::chrono::milliseconds(0)).count(),
                 " ms; it must be above 0.");
}

bool StepTimer::is_due(std::int64_t step) const {
  if (every_.is_never()) return false;
  if (!last_) return true;
  if (step == last_->step) return false;
  if (every_.steps && step >= last_->step + *every_.steps) return true;
  return is_due_by_time(step);
}

bool StepTimer::is_due_by_time(std::int64_t step) const {
  if (!every_.time || !last_) return every_.time.has_value();
  return step != last_->step && clock_.now() >= last_->time + *every_.time;
}

std::optional<StepTimer::Elapsed> StepTimer::mark(std::int64_t step) {
  const auto now = clock_.now();
  std::optional<Elapsed> elapsed;
  if (last_) elapsed = Elapsed{.time = now - last_->time, .steps = step - last_->step};
  last_ = Mark{.step = step, .time = now};
  return elapsed;
}

}  // namespace brigade::train

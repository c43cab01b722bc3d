#include "brigade/train/hooks/step_counter_hook.h"

#include <optional>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/summary/summary_writer.h"

namespace brigade::train {
namespace {

class StepCounter final : public SessionRunHook {
 public:
  explicit StepCounter(Every every) : every_(every) {}

  void begin(SessionContext& context) override { timer_.emplace(every_, context.clock()); }

  void after_create_session(SessionContext& context) override {
    timer_->reset();
    timer_->mark(context.global_step());
  }

  void after_run(SessionContext& context, const StepValues&) override {
    const std::int64_t step = context.global_step();
    if (!timer_->is_due(step)) return;
    const auto elapsed = timer_->mark(step);
    if (!elapsed || elapsed->time.count() <= 0) return;
    const double rate = static_cast<double>(elapsed->steps) / elapsed->time.count();
    base::log_info(base::str_cat("global_step/sec: ", rate));
    if (context.summaries() != nullptr) context.summaries()->scalar("global_step/sec", rate, step);
  }

 private:
  const Every every_;
  std::optional<StepTimer> timer_;
};

}  // namespace

std::shared_ptr<SessionRunHook> StepCounterHook::hook() const {
  return std::make_shared<StepCounter>(every);
}

}  // namespace brigade::train

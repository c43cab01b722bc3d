#include "brigade/train/callbacks/learning_rate_scheduler.h"

#include <utility>

#include "brigade/base/error.h"

namespace brigade::train {
namespace {

class LearningRateSchedulerCallback final : public Callback {
 public:
  explicit LearningRateSchedulerCallback(LearningRateScheduler options)
      : options_(std::move(options)) {}
  void on_epoch_begin(FitContext& fit) override {
    fit.set_learning_rate(options_.schedule(fit.epoch(), fit.learning_rate()));
  }
  void on_epoch_end(FitContext& fit) override { fit.add_log("learning_rate", fit.learning_rate()); }

 private:
  const LearningRateScheduler options_;
};

}  // namespace

LearningRateScheduler LearningRateScheduler::of(optim::SchedulePtr schedule) {
  check_argument(schedule != nullptr, "LearningRateScheduler: the schedule is null.");
  return {
      [schedule = std::move(schedule)](std::int64_t epoch, double) { return (*schedule)(epoch); }};
}

std::shared_ptr<Callback> LearningRateScheduler::callback() const {
  check_argument(static_cast<bool>(schedule),
                 "LearningRateScheduler: schedule is empty; give it a function.");
  return std::make_shared<LearningRateSchedulerCallback>(*this);
}

}  // namespace brigade::train

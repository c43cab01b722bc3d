#include "brigade/train/callbacks/learning_rate_callbacks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"

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

class ReduceLROnPlateauCallback final : public Callback {
 public:
  explicit ReduceLROnPlateauCallback(ReduceLROnPlateau options)
      : options_(std::move(options)),
        monitor_("ReduceLROnPlateau", options_.monitor, options_.mode, options_.min_delta) {}

  void on_train_begin(FitContext& fit) override {
    best_.reset();
    wait_ = 0;
    cooldown_ = 0;
    fit.add_checkpointable(monitor_state("reduce_lr_on_plateau",
                                         {{"wait", &wait_}, {"cooldown", &cooldown_}}, &best_));
  }

  void on_epoch_end(FitContext& fit) override {
    fit.add_log("learning_rate", fit.learning_rate());
    const std::optional<double> current = monitor_.value(fit.logs());
    if (!current) return;
    if (cooldown_ > 0) {
      --cooldown_;
      wait_ = 0;
    }
    if (monitor_.is_improvement(*current, best_)) {
      best_ = *current;
      wait_ = 0;
    } else if (cooldown_ == 0 && ++wait_ >= options_.patience) {
      reduce(fit);
    }
  }

 private:
  void reduce(FitContext& fit) {
    const double before = fit.learning_rate();
    if (before <= options_.min_lr) return;
    const double rate = std::max(before * options_.factor, options_.min_lr);
    fit.set_learning_rate(rate);
    cooldown_ = options_.cooldown;
    wait_ = 0;
    base::log_info("Epoch ", fit.epoch() + 1, ": ", monitor_.name(),
                   " has not improved; the learning rate is now ", rate, ".");
  }

  const ReduceLROnPlateau options_;
  const MetricMonitor monitor_;
  std::optional<double> best_;
  std::int64_t wait_ = 0, cooldown_ = 0;
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

std::shared_ptr<Callback> ReduceLROnPlateau::callback() const {
  check_argument(factor > 0.0 && factor < 1.0,
                 "ReduceLROnPlateau: factor must lie between 0 and 1.");
  check_argument(patience >= 0 && cooldown >= 0 && min_lr >= 0.0,
                 "ReduceLROnPlateau: patience, cooldown and min_lr must not be negative.");
  return std::make_shared<ReduceLROnPlateauCallback>(*this);
}

}  // namespace brigade::train

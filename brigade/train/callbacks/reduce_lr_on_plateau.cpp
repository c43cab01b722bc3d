#include "brigade/train/callbacks/reduce_lr_on_plateau.h"

#include <algorithm>
#include <optional>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::train {
namespace {

class ReduceLROnPlateauCallback final : public Callback {
 public:
  explicit ReduceLROnPlateauCallback(ReduceLROnPlateau options)
      : options_(std::move(options)),
        monitor_("ReduceLROnPlateau", options_.monitor, options_.mode, options_.min_delta) {}

  void on_train_begin(FitContext& fit) override {
    best_.reset();
    wait_ = 0;
    cooldown_ = 0;
    fit.add_checkpointable(
        {.name = "reduce_lr_on_plateau",
         .save = [this] { return save(); },
         .restore = [this](const CheckpointableState& state) { restore(state); }});
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
  CheckpointableState save() const {
    CheckpointableState state{.tree = io::StateTree::dict()};
    state.tree["wait"] = wait_;
    state.tree["cooldown"] = cooldown_;
    state.tree["best"] = saved_best(best_);
    return state;
  }

  void restore(const CheckpointableState& state) {
    const std::int64_t wait = state.tree.at("wait").as_int64();
    const std::int64_t cooldown = state.tree.at("cooldown").as_int64();
    best_ = restored_best(state.tree.at("best"));
    wait_ = wait;
    cooldown_ = cooldown;
  }

  void reduce(FitContext& fit) {
    const double before = fit.learning_rate();
    if (before <= options_.min_lr) return;
    const double rate = std::max(before * options_.factor, options_.min_lr);
    fit.set_learning_rate(rate);
    cooldown_ = options_.cooldown;
    wait_ = 0;
    base::log_info(base::str_cat("Epoch ", fit.epoch() + 1, ": ", monitor_.name(),
                                 " has not improved; the learning rate is now ", rate, "."));
  }

  const ReduceLROnPlateau options_;
  const MetricMonitor monitor_;
  std::optional<double> best_;
  std::int64_t wait_ = 0, cooldown_ = 0;
};

void check(bool holds, const char* text) {
  check_argument(holds, base::str_cat("ReduceLROnPlateau: ", text));
}

}  // namespace

std::shared_ptr<Callback> ReduceLROnPlateau::callback() const {
  check(factor > 0.0 && factor < 1.0, "factor must lie between 0 and 1.");
  check(patience >= 0 && cooldown >= 0 && min_lr >= 0.0,
        "patience, cooldown and min_lr must not be negative.");
  return std::make_shared<ReduceLROnPlateauCallback>(*this);
}

}  // namespace brigade::train

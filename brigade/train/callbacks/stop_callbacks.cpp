#include "brigade/train/callbacks/stop_callbacks.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <map>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::train {
namespace {

class EarlyStoppingCallback final : public Callback {
 public:
  explicit EarlyStoppingCallback(EarlyStopping options)
      : options_(std::move(options)),
        monitor_("EarlyStopping", options_.monitor, options_.mode, options_.min_delta) {}

  void on_train_begin(FitContext& fit) override {
    wait_ = 0;
    best_.reset();
    best_weights_.clear();
    fit.add_checkpointable(
        monitor_state("early_stopping", {{"wait", &wait_}}, &best_, &best_weights_));
  }

  void on_epoch_end(FitContext& fit) override {
    const std::optional<double> current = monitor_.value(fit.logs());
    if (!current || fit.epoch() < options_.start_from_epoch) return;
    ++wait_;
    if (monitor_.is_improvement(*current, best_)) {
      best_ = *current;
      keep_weights(fit);
      if (!options_.baseline || monitor_.is_improvement(*current, options_.baseline)) wait_ = 0;
      return;
    }
    // As in Keras nothing stops in the very first epoch, and a first value that is NaN stays the
    // best.
    if (wait_ >= options_.patience && fit.epoch() > 0) {
      fit.stop(base::str_cat("early stopping: ", monitor_.name(), " has not improved for ", wait_,
                             wait_ == 1 ? " epoch" : " epochs"));
    }
  }

  void on_train_end(FitContext& fit) override {
    for (const variables::Variable& variable : fit.variables()) {
      const auto found = best_weights_.find(variable.name());
      if (found != best_weights_.end()) variable.assign(found->second);
    }
    best_weights_.clear();
  }

 private:
  void keep_weights(const FitContext& fit) {
    if (!options_.restore_best_weights) return;
    best_weights_.clear();
    for (const variables::Variable& variable : fit.variables())
      best_weights_[variable.name()] = variable.read().clone();
  }

  const EarlyStopping options_;
  const MetricMonitor monitor_;
  std::int64_t wait_ = 0;  // epochs since the last improvement
  std::optional<double> best_;
  std::map<std::string, at::Tensor> best_weights_;  // by variable
};

class TerminateOnNaNCallback final : public Callback {
 public:
  void on_train_batch_end(FitContext& fit) override {
    if (!fit.step_values().has("loss")) return;  // of a step of the program's own
    const double loss = fit.step_values().number("loss");
    if (std::isfinite(loss)) return;
    fit.stop(base::str_cat("the loss of batch ", fit.batches() - 1, " of epoch ", fit.epoch() + 1,
                           " is ", loss));
  }
};

}  // namespace

std::shared_ptr<Callback> EarlyStopping::callback() const {
  check_argument(patience >= 0, "EarlyStopping: patience is ", patience,
                 " and must not be negative.");
  return std::make_shared<EarlyStoppingCallback>(*this);
}

std::shared_ptr<Callback> TerminateOnNaN::callback() const {
  return std::make_shared<TerminateOnNaNCallback>();
}

}  // namespace brigade::train

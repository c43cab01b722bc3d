#include "brigade/train/callbacks/progress_callback.h"

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "brigade/base/clock.h"
#include "brigade/train/callbacks/progress.h"

namespace brigade::train {
namespace {

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

class ProgressCallback final : public Callback {
 public:
  ProgressCallback(std::ostream& out, Verbose verbose) : out_(out), verbose_(verbose) {}

  void on_epoch_begin(FitContext& fit) override {
    begin_ = clock_.now();
    if (verbose_ == Verbose::kProgress)
      progress_.emplace(out_, clock_, ProgressOptions{.total_steps = fit.plan().steps_per_epoch});
  }

  void on_train_batch_end(FitContext& fit) override {
    if (!progress_ || !progress_->is_due()) return;
    progress_->report({.steps = fit.batches(),
                       .examples = fit.examples(),
                       .loss = fit.step_values().number("loss")});
  }

  void on_epoch_end(FitContext& fit) override {
    progress_.reset();
    const std::chrono::duration<double> time = clock_.now() - begin_;
    out_ << "Epoch " << fit.epoch() + 1 << "/" << fit.plan().epochs << "  " << fit.batches()
         << " steps  " << rounded(time.count()) << " s";
    for (const auto& [name, value] : fit.logs()) out_ << "  " << name << " " << rounded(value);
    out_ << std::endl;
  }

  void on_train_end(FitContext& fit) override {
    progress_.reset();
    if (fit.should_stop()) out_ << "Stopped: " << fit.stop_reason() << std::endl;
  }

 private:
  std::ostream& out_;
  const Verbose verbose_;
  base::SystemClock clock_;
  std::chrono::steady_clock::time_point begin_;
  std::optional<Progress> progress_;
};

}  // namespace

std::shared_ptr<Callback> make_progress_callback(std::ostream& out, Verbose verbose) {
  return std::make_shared<ProgressCallback>(out, verbose);
}

}  // namespace brigade::train

#include "brigade/train/callbacks/progress.h"

#include <cmath>
#include <cstdio>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::train {

namespace {

constexpr const char* kRestOfLine = "\x1b[K";  // erases the rest of a longer last line

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// 0:07, 12:34, 1:02:03.
std::string clock_text(double duration) {
  const auto all = static_cast<std::int64_t>(std::ceil(duration));
  char text[64];
  if (all >= 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(all / 3600),
                  static_cast<long long>(all / 60 % 60), static_cast<long long>(all % 60));
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", static_cast<long long>(all / 60),
                  static_cast<long long>(all % 60));
  }
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
    ProgressState state{.steps = fit.batches(), .examples = fit.examples()};
    if (fit.step_values().has("loss")) state.loss = fit.step_values().number("loss");
    progress_->report(state);
  }

  void on_epoch_end(FitContext& fit) override {
    progress_.reset();
    const std::chrono::duration<double> time = clock_.now() - begin_;
    out_ << "Epoch " << fit.epoch() + 1 << "/" << fit.plan().epochs << "  " << fit.batches()
         << " steps  " << formatted("%.4g", time.count()) << " s";
    for (const auto& [name, value] : fit.logs())
      out_ << "  " << name << " " << formatted("%.4g", value);
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

Progress::Progress(std::ostream& out, const base::Clock& clock, ProgressOptions options)
    : out_(out), clock_(clock), options_(options), begin_(clock.now()), last_time_(begin_) {
  check_argument(options.interval.count() >= 0,
                 "The interval between progress reports is negative.");
}

Progress::~Progress() {
  try {
    finish();
  } catch (...) {  // a stream that throws must not terminate the program
  }
}

void Progress::report(const ProgressState& state) {
  if (state.steps == last_.steps) return;
  const Time now = clock_.now();
  const std::string text = describe(state, now);
  last_ = state;
  last_time_ = now;
  is_line_open_ = options_.form == ProgressForm::kRewrite;
  if (is_line_open_) {
    out_ << '\r' << text << kRestOfLine << std::flush;
  } else {
    out_ << text << std::endl;
  }
}

void Progress::finish() {
  if (is_line_open_) out_ << std::endl;
  is_line_open_ = false;
}

std::string Progress::describe(const ProgressState& state, Time now) const {
  const double elapsed = seconds(now - last_time_);
  const auto examples = static_cast<double>(state.examples - last_.examples);
  std::string text = base::str_cat("step ", state.steps);
  if (options_.total_steps) text += base::str_cat("/", *options_.total_steps);
  if (elapsed > 0.0) text += formatted("  %.0f examples/s", examples / elapsed);
  if (state.loss) text += formatted("  loss %.4f", *state.loss);
  return text + time_left(state, now);
}

std::string Progress::time_left(const ProgressState& state, Time now) const {
  if (!options_.total_steps || state.steps <= 0) return "";
  const auto left = static_cast<double>(*options_.total_steps - state.steps);
  if (left <= 0.0) return "";
  return base::str_cat("  left ",
                       clock_text(left * seconds(now - begin_) / static_cast<double>(state.steps)));
}

std::shared_ptr<Callback> make_progress_callback(std::ostream& out, Verbose verbose) {
  return std::make_shared<ProgressCallback>(out, verbose);
}

}  // namespace brigade::train

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "brigade/base/clock.h"
#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

/// How to show progress.
enum class ProgressForm {
  kLines,   ///< One line per report: for log files.
  kRewrite  ///< One line that is overwritten: for terminals.
};

/// Options of Progress.
struct ProgressOptions {
  /// The total number of steps; unset if not known, then no remaining time is shown.
  std::optional<std::int64_t> total_steps = std::nullopt;
  /// The time between two reports. A report has a cost: reading the loss waits for the device.
  std::chrono::milliseconds interval = std::chrono::seconds(5);
  /// Lines, or one line that is overwritten.
  ProgressForm form = ProgressForm::kLines;
};

/// The progress of a training.
struct ProgressState {
  std::int64_t steps = 0;
  std::int64_t examples = 0;
  std::optional<double> loss = std::nullopt;
};

/// Reports the progress of a training in human-readable form: steps, examples per second since the
/// last report, loss, and the estimated remaining time.
///
///   if (progress.is_due()) progress.report({step, examples, loss_value()});
///
/// Thread-safety: one thread at a time.
class Progress {
 public:
  /// Starts the clock. `out` and `clock` must outlive this object. Throws kInvalidArgument for a
  /// negative interval.
  Progress(std::ostream& out, const base::Clock& clock, ProgressOptions options = {});
  /// Calls `finish`.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether the interval has passed since the last report, or the start. Reads the clock.
  bool is_due() const { return clock_.now() - last_time_ >= options_.interval; }

  /// Writes a report, due or not, unless the last report was of the same step.
  void report(const ProgressState& state);

  /// Ends the line that is being overwritten, so that further output starts on a new line.
  void finish();

 private:
  using Time = std::chrono::steady_clock::time_point;
  std::string describe(const ProgressState& state, Time now) const;
  std::string time_left(const ProgressState& state, Time now) const;

  std::ostream& out_;
  const base::Clock& clock_;
  const ProgressOptions options_;
  const Time begin_;
  Time last_time_;
  ProgressState last_;
  bool is_line_open_ = false;
};

/// How much a fit prints.
enum class Verbose {
  kSilent,
  kEpochs,   ///< one line per epoch: time and metrics
  kProgress  ///< also the progress within an epoch, every few seconds
};

/// Prints the lines of `FitOptions::verbose` to `out`: "Epoch 1/5  469 steps  3.2 s  accuracy 0.81
/// loss 0.52". `out` must outlive the callback. Keras: ProgbarLogger.
std::shared_ptr<Callback> make_progress_callback(std::ostream& out, Verbose verbose);

}  // namespace brigade::train

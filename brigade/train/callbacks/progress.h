#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "brigade/base/clock.h"

namespace brigade::train {

/// How progress is shown.
enum class ProgressForm {
  kLines,   ///< A line a report: for log files.
  kRewrite  ///< One line that is written over: for terminals.
};

struct ProgressOptions {
  /// Steps in all; unset if not known, and then no time left is shown.
  std::optional<std::int64_t> total_steps = std::nullopt;
  /// Time between two reports. What a report costs (reading the loss waits for the device) is paid
  /// this often.
  std::chrono::milliseconds interval = std::chrono::seconds(5);
  ProgressForm form = ProgressForm::kLines;
};

/// How far a training has come.
struct ProgressState {
  std::int64_t steps = 0;
  std::int64_t examples = 0;
  double loss = 0.0;
};

/// Tells a person how a training goes: steps, examples a second since the last report, loss, and
/// the time left at the pace so far.
///
///   if (progress.is_due()) progress.report({step, examples, loss_value()});
///
/// Thread-safety: one thread at a time.
class Progress {
 public:
  /// Starts the time. `out` and `clock` must outlive this. Throws kInvalidArgument for a negative
  /// interval.
  Progress(std::ostream& out, const base::Clock& clock, ProgressOptions options = {});
  /// As `finish`.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Whether the interval has passed since the last report, or the start. Costs a look at the
  /// clock.
  bool is_due() const;

  /// Writes a report, due or not; one of the same step as the last is left out.
  void report(const ProgressState& state);

  /// Ends the line that is being written over, so that what comes next stands on its own.
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

}  // namespace brigade::train

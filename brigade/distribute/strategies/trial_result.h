#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::distribute {

/// Values by name, as a trial reports them: {{"loss", 0.3}, {"accuracy", 0.9}}.
using TrialMetrics = std::map<std::string, double>;

/// The metrics of a trial after an epoch.
struct TrialReport {
  std::int64_t epoch = 0;
  TrialMetrics metrics = {};
};

/// The state of a trial: of one model of an IndependentStrategy.
enum class TrialStatus {
  kQueued,     ///< It waits for a device.
  kRunning,    ///< It is being trained.
  kCompleted,  ///< It ended by itself.
  kStopped,    ///< It ended early because the rule or the deadline asked it to.
  kFailed,     ///< It threw.
  kCancelled,  ///< The run was cancelled before it began, or while it was trained.
};

/// "queued", "running", "completed", "stopped", "failed", "cancelled".
std::string_view to_string(TrialStatus status);

/// A row of the results of `IndependentStrategy::run`.
struct TrialResult {
  /// The position of the trial among those of the run, from 0.
  int index = 0;
  std::string device = {};  ///< "cpu:1"; empty: it never began
  TrialStatus status = TrialStatus::kQueued;
  TrialMetrics metrics = {};              ///< what it returned, or else its last report
  std::vector<TrialReport> reports = {};  ///< by epoch
  /// How long it was trained.
  double seconds = 0.0;
  std::string reason = {};             ///< why it stopped or failed
  std::exception_ptr error = nullptr;  ///< what it threw
};

/// The results as a table, a line for each, with a column for each metric; reasons follow. `labels`
/// says what each trial was ("learning_rate=0.1"); without labels there is no such column.
std::string trial_table(const std::vector<TrialResult>& results,
                        const std::vector<std::string>& labels = {});

}  // namespace brigade::distribute

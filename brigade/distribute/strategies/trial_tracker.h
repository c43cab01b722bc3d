#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/distribute/strategies/median_stopping.h"
#include "brigade/distribute/strategies/trial_result.h"

namespace brigade::distribute {

struct TrialTrackerOptions {
  int trials = 1;
  std::optional<MedianStopping> stopping = std::nullopt;
  /// After this time trials stop, and no new one begins.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  bool stop_on_failure = false;
  concurrency::CancelToken cancel = {};
  /// See IndependentOptions.
  std::function<void(const TrialResult& trial)> on_change = {};
  const base::Clock* clock = nullptr;  ///< null: the system clock
};

/// Tracks the trials of a run: their states, reports and results, which is next, and which should
/// stop.
///
/// Thread-safety: all functions from any thread.
class TrialTracker {
 public:
  /// Throws kInvalidArgument for fewer than one trial.
  explicit TrialTracker(TrialTrackerOptions options);

  /// The next trial that should begin, now running on `device`; unset: none is left, or none may
  /// begin any more.
  std::optional<int> begin_next(const std::string& device);
  /// The first trial that has not begun; the number of trials if all have.
  int first_queued() const;
  /// Throws kInvalidArgument if the trial has reported that epoch or a later one, and as the rule.
  void report(int trial, std::int64_t epoch, const TrialMetrics& metrics);
  /// Remembers the answer: a trial that is never asked to stop has completed when it returns.
  bool should_stop(int trial);
  /// The trial has returned these metrics; without any, its last report counts.
  void complete(int trial, TrialMetrics metrics);
  /// The trial has thrown.
  void fail(int trial, const std::exception_ptr& error);
  /// Those that have not begun are cancelled. Call it when no trial runs.
  std::vector<TrialResult> take_results();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct TrialState {
    TrialResult result;
    Time begun;
    std::string stop_reason;
    bool stop_requested = false;
  };
  bool is_deadline_over() const;
  bool is_given_up() const BRIGADE_REQUIRES(mutex_);
  TrialState& at(int trial) BRIGADE_REQUIRES(mutex_);
  const TrialState& at(int trial) const BRIGADE_REQUIRES(mutex_);
  std::vector<std::vector<TrialReport>> reports_of_others(int trial) const BRIGADE_REQUIRES(mutex_);
  void finish(int trial, TrialStatus status) BRIGADE_REQUIRES(mutex_);
  /// Calls `on_change` with the state of the trial.
  void announce(int trial);

  const TrialTrackerOptions options_;
  const base::SystemClock system_clock_;
  const base::Clock& clock_;
  const std::optional<Time> deadline_;
  mutable concurrency::Mutex mutex_;
  std::vector<TrialState> trials_ BRIGADE_GUARDED_BY(mutex_);
  int next_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool has_failure_ BRIGADE_GUARDED_BY(mutex_) = false;
  concurrency::Mutex announcing_;  // one call at a time, without the other mutex
};

}  // namespace brigade::distribute

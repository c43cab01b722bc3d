#include "brigade/distribute/strategies/trial_tracker.h"

#include <c10/util/Exception.h>

#include "brigade/base/error.h"

namespace brigade::distribute {
namespace {

constexpr const char* kDeadlineReason = "the time of the run is over";

struct FailureText {
  std::string text;
  bool is_cancelled = false;
};

FailureText describe_failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return {known.what(), known.code() == ErrorCode::kCancelled};
  } catch (const c10::Error& known) {
    return {known.what_without_backtrace()};
  } catch (const std::exception& known) {
    return {known.what()};
  } catch (...) {
    return {"an exception that is no std::exception"};
  }
}

}  // namespace

TrialTracker::TrialTracker(TrialTrackerOptions options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : system_clock_),
      deadline_(options_.timeout ? std::optional(clock_.now() + *options_.timeout) : std::nullopt) {
  check_argument(options_.trials >= 1, "IndependentStrategy::run: the number of trials is ",
                 options_.trials, "; it must be at least 1.");
  if (options_.stopping) options_.stopping->check();
  trials_.resize(static_cast<std::size_t>(options_.trials));
  for (int trial = 0; trial < options_.trials; ++trial) at(trial).result.index = trial;
}

TrialTracker::TrialState& TrialTracker::at(int trial) {
  return trials_[static_cast<std::size_t>(trial)];
}

const TrialTracker::TrialState& TrialTracker::at(int trial) const {
  return trials_[static_cast<std::size_t>(trial)];
}

bool TrialTracker::is_deadline_over() const {
  return deadline_ && clock_.now() >= *deadline_;
}

std::optional<int> TrialTracker::begin_next(const std::string& device) {
  int trial = 0;
  {
    concurrency::MutexLock lock(mutex_);
    if (is_given_up() || is_deadline_over()) return std::nullopt;
    if (next_ == options_.trials) return std::nullopt;
    trial = next_++;
    at(trial).begun = clock_.now();
    at(trial).result.device = device;
    at(trial).result.status = TrialStatus::kRunning;
  }
  announce(trial);
  return trial;
}

int TrialTracker::first_queued() const {
  concurrency::MutexLock lock(mutex_);
  return next_;
}

std::vector<std::vector<TrialReport>> TrialTracker::reports_of_others(int trial) const {
  std::vector<std::vector<TrialReport>> others;
  for (int other = 0; other < options_.trials; ++other)
    if (other != trial && !at(other).result.reports.empty())
      others.push_back(at(other).result.reports);
  return others;
}

void TrialTracker::report(int trial, std::int64_t epoch, const TrialMetrics& metrics) {
  {
    concurrency::MutexLock lock(mutex_);
    TrialState& state = at(trial);
    auto& reports = state.result.reports;
    check_argument(reports.empty() || reports.back().epoch < epoch,
                   "Trial::report: the trial has reported epoch ",
                   reports.empty() ? 0 : reports.back().epoch,
                   "; the next must be a later one, not ", epoch, ".");
    reports.push_back({epoch, metrics});
    state.result.metrics = metrics;
    if (options_.stopping && state.stop_reason.empty())
      state.stop_reason =
          options_.stopping->reason_to_stop(reports, reports_of_others(trial)).value_or("");
  }
  announce(trial);
}

bool TrialTracker::should_stop(int trial) {
  concurrency::MutexLock lock(mutex_);
  TrialState& state = at(trial);
  if (!state.stop_reason.empty() || is_given_up() || is_deadline_over())
    state.stop_requested = true;
  return state.stop_requested;
}

bool TrialTracker::is_given_up() const {
  return options_.cancel.is_cancelled() || (has_failure_ && options_.stop_on_failure);
}

void TrialTracker::complete(int trial, TrialMetrics metrics) {
  {
    concurrency::MutexLock lock(mutex_);
    TrialState& state = at(trial);
    if (!metrics.empty()) state.result.metrics = std::move(metrics);
    TrialStatus status = TrialStatus::kCompleted;
    if (state.stop_requested) {
      const bool is_cancelled = state.stop_reason.empty() && is_given_up();
      status = is_cancelled ? TrialStatus::kCancelled : TrialStatus::kStopped;
      if (!is_cancelled)
        state.result.reason = state.stop_reason.empty() ? kDeadlineReason : state.stop_reason;
    }
    finish(trial, status);
  }
  announce(trial);
}

void TrialTracker::fail(int trial, const std::exception_ptr& error) {
  const FailureText failure = describe_failure(error);
  const bool is_cancelled = failure.is_cancelled && options_.cancel.is_cancelled();
  {
    concurrency::MutexLock lock(mutex_);
    TrialResult& result = at(trial).result;
    result.reason = is_cancelled ? "" : failure.text;
    result.error = error;
    finish(trial, is_cancelled ? TrialStatus::kCancelled : TrialStatus::kFailed);
    if (!is_cancelled) has_failure_ = true;
  }
  if (!is_cancelled && options_.stop_on_failure) options_.cancel.cancel();
  announce(trial);
}

void TrialTracker::finish(int trial, TrialStatus status) {
  TrialState& state = at(trial);
  state.result.status = status;
  state.result.seconds = std::chrono::duration<double>(clock_.now() - state.begun).count();
}

void TrialTracker::announce(int trial) {
  if (!options_.on_change) return;
  concurrency::MutexLock one_at_a_time(announcing_);
  TrialResult copy;
  {
    concurrency::MutexLock lock(mutex_);
    copy = at(trial).result;
  }
  options_.on_change(copy);
}

std::vector<TrialResult> TrialTracker::take_results() {
  concurrency::MutexLock lock(mutex_);
  std::vector<TrialResult> results;
  for (TrialState& each : trials_) {
    if (each.result.status == TrialStatus::kQueued) {
      each.result.status = TrialStatus::kCancelled;
      if (is_deadline_over() && !options_.cancel.is_cancelled())
        each.result.reason = kDeadlineReason;
    }
    results.push_back(std::move(each.result));
  }
  return results;
}

}  // namespace brigade::distribute

#include <algorithm>
#include <exception>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/train/hooks/checkpoint_saver_hook.h"
#include "brigade/train/session/session.h"

namespace brigade::train {

namespace {

/// Whether a retry from the last checkpoint may help. An error of a replica that is not a
/// brigade::Error is nested in a kAborted error: the nested error decides.
bool is_recoverable(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    const auto* nested = dynamic_cast<const std::nested_exception*>(&error);
    if (nested != nullptr && nested->nested_ptr()) return is_recoverable(nested->nested_ptr());
    return error.code() == ErrorCode::kAborted || error.code() == ErrorCode::kUnavailable;
  } catch (...) {
    return false;
  }
}

std::string what_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

std::optional<StepValues> MonitoredTrainingSession::run(const StepFunction& step) {
  check_state(!should_stop(),
              "run was called after the session should stop: check should_stop first.");
  while (!should_stop()) {
    try {
      return try_run(step);
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      if (!recover(error)) {
        fail(error);
        throw;
      }
    }
  }
  return std::nullopt;
}

std::optional<StepValues> MonitoredTrainingSession::try_run(const StepFunction& step) {
  TrainingState& state = context_.state();
  context_.agree_on_stop();
  if (should_stop()) return std::nullopt;
  state.apply_schedules();
  spans().measure("before_run", "hook", [&] {
    for (const auto& hook : hooks_) hook->before_run(context_);
  });
  if (should_stop()) return std::nullopt;
  std::optional<StepValues> values = spans().measure("step", "step", step);
  if (!values) {
    context_.request_stop();
    return std::nullopt;
  }
  state.advance();
  spans().measure("after_run", "hook", [&] {
    for (const auto& hook : hooks_) {
      if (hook != saver_) hook->after_run(context_, *values);
    }
    // Last, so that it saves the other hooks' state after this step, and nothing if one of them
    // threw.
    if (saver_) saver_->after_run(context_, *values);
  });
  if (context_.global_step() > furthest_step_) recoveries_in_a_row_ = 0;
  return values;
}

// An error of the recovery itself is only logged: users must see the first error.
bool MonitoredTrainingSession::recover(const std::exception_ptr& error) {
  if (!is_recoverable(error) || options_.checkpoint_dir.empty()) return false;
  // The other workers do not know of the error, or caused it: a launcher restarts all of them.
  if (context_.state().strategy().num_workers() > 1) return false;
  // The checkpoints there are of another run, unless this one saves.
  const bool started_elsewhere = options_.resume == Resume::kNever || options_.resume_from;
  if (started_elsewhere && !saver_) return false;
  if (recoveries_in_a_row_ >= options_.max_recoveries) {
    base::log_error(base::str_cat("Giving up after ", std::int64_t{recoveries_in_a_row_},
                                  " recoveries without progress beyond step ", furthest_step_,
                                  "."));
    return false;
  }
  base::log_warning(
      base::str_cat("A step failed and is retried from the last checkpoint: ", what_of(error)));
  furthest_step_ = std::max(furthest_step_, context_.global_step());
  ++recoveries_in_a_row_;
  ++context_.recoveries_;
  try {
    if (!restore_latest()) return false;
    create_session();
    return true;
  } catch (const std::exception& again) {
    base::log_error(base::str_cat("The recovery failed: ", again.what()));
    return false;
  }
}

}  // namespace brigade::train

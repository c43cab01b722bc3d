#include <algorithm>
#include <exception>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/train/hooks/checkpoint_saver_hook.h"
#include "brigade/train/session/session.h"

namespace brigade::train {

namespace {

/// Whether trying again from the last checkpoint may help. A replica's error that is none of
/// Brigade's comes nested in a kAborted: what is inside decides.
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
              "run was called after the session should stop: ask should_stop first.");
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
    // Last, so that it saves what the others remember of this step, and nothing that they refused.
    if (saver_) saver_->after_run(context_, *values);
  });
  if (context_.global_step() > furthest_step_) recoveries_in_a_row_ = 0;
  return values;
}

// An error of the recovery itself is logged: the first one is what people must see.
bool MonitoredTrainingSession::recover(const std::exception_ptr& error) {
  if (!is_recoverable(error) || options_.checkpoint_dir.empty()) return false;
  // Others do not know of it, or are the error: a launcher starts all of them again.
  if (context_.state().strategy().num_workers() > 1) return false;
  // What lies there is another run's, unless this one saves.
  const bool began_elsewhere = options_.resume == Resume::kNever || options_.resume_from;
  if (began_elsewhere && !saver_) return false;
  if (recoveries_in_a_row_ >= options_.max_recoveries) {
    base::log_error(base::str_cat("Gave up after ", std::int64_t{recoveries_in_a_row_},
                                  " recoveries without getting further than step ", furthest_step_,
                                  "."));
    return false;
  }
  base::log_warning(
      base::str_cat("A step failed and is tried again from the last checkpoint: ", what_of(error)));
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

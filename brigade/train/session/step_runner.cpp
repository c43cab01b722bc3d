#include "brigade/train/session/step_runner.h"

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/comm/step_progress.h"

namespace brigade::train {

bool is_retryable(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const comm::StepAbandoned&) {
    return true;
  } catch (const Error& own) {
    const auto* nested = dynamic_cast<const std::nested_exception*>(&own);
    if (nested != nullptr && nested->nested_ptr()) return is_retryable(nested->nested_ptr());
    return own.code() == ErrorCode::kUnavailable;
  } catch (...) {
    return false;
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an unknown error";
  }
}

bool StepRunner::prepare_retry(const std::exception_ptr& error) {
  if (!is_retryable(error) || options_.cancel.is_cancelled()) return false;
  if (retries_ >= options_.max_retries) {
    if (retries_ > 0) base::log_error("Giving up after ", retries_, " retries without progress.");
    return false;
  }
  ++retries_;
  base::log_warning("A step failed and is retried from ", options_.from, " (", retries_, " of ",
                    options_.max_retries, "): ", text_of(error));
  try {
    return !options_.recover || options_.recover();
  } catch (const std::exception& again) {
    base::log_error("The recovery failed: ", again.what());
    return false;
  }
}

}  // namespace brigade::train

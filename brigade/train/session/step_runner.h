#pragma once

#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "brigade/concurrency/cancel_token.h"

namespace brigade::train {

/// Whether a step that failed with this error may succeed if it is made again: the one rule for
/// sessions, `Model::fit` and `slim::learning::train`.
///
/// True for kUnavailable (a lost peer, or a service that is away for a moment), and for a step that
/// all workers abandoned together (`comm::StepAbandoned`). Everything else is an error of the
/// program, which would only occur again: also a plain kAborted, which is the code of exceptions
/// that are not Brigade's. Of nested exceptions the innermost decides.
bool is_retryable(const std::exception_ptr& error);

/// The message of an exception.
std::string text_of(const std::exception_ptr& error);

struct StepRunnerOptions {
  /// The maximum number of retries without progress.
  int max_retries = 3;
  /// What a step starts from when it is made again; for the log.
  std::string from = "the same batch";
  /// Called before each retry: restores the state that the step starts from. If it returns false,
  /// or throws (which is logged), the error of the step is thrown. Empty: nothing to restore.
  std::function<bool()> recover = {};
  /// After a cancellation nothing is retried.
  concurrency::CancelToken cancel = {};
};

/// Makes steps, and makes a failed step again if `is_retryable`.
///
/// Thread-safety: one thread.
class StepRunner {
 public:
  explicit StepRunner(StepRunnerOptions options = {}) : options_(std::move(options)) {}

  /// Calls `step` until it succeeds, and returns its result. Throws its error if it is not
  /// retryable, and after `max_retries` retries since the last progress.
  template <class Step>
  auto run(const Step& step) {
    for (;;) {
      try {
        return step();
      } catch (...) {
        if (!prepare_retry(std::current_exception())) throw;
      }
    }
  }

  /// Starts counting again: the training is further than before the last error.
  void made_progress() { retries_ = 0; }

 private:
  bool prepare_retry(const std::exception_ptr& error);

  StepRunnerOptions options_;
  int retries_ = 0;
};

}  // namespace brigade::train

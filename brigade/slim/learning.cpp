#include "brigade/slim/learning.h"

#include <chrono>
#include <cstdio>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::slim::learning {

namespace {

void check(const TrainOptions& options, const TrainOp& train_op) {
  check_argument(!options.number_of_steps || *options.number_of_steps > 0,
                 base::str_cat("number_of_steps is ", options.number_of_steps.value_or(0),
                               " and must be positive, or unset to train until the data ends."));
  check_argument(options.log_every_n_steps >= 0,
                 base::str_cat("log_every_n_steps is ", options.log_every_n_steps,
                               " and must not be negative; 0 logs nothing."));
  check_argument(options.max_retries >= 0, base::str_cat("max_retries is ", options.max_retries,
                                                         " and must not be negative."));
  check_argument(!options.number_of_steps || options.train_step_fn ||
                     train_op.count_steps() == CountSteps::kYes,
                 "number_of_steps would never be reached: the train op does not count the global "
                 "step, and there is no train_step_fn that might.");
}

bool may_help_to_retry(const Error& error) {
  return error.code() == ErrorCode::kAborted || error.code() == ErrorCode::kUnavailable;
}

TrainStepResult step_with_retries(const TrainOp& train_op, const TrainOptions& options) {
  for (int retry = 1;; ++retry) {
    try {
      return options.train_step_fn ? options.train_step_fn(train_op) : train_step(train_op);
    } catch (const Error& error) {
      const bool gives_up = retry > options.max_retries || options.cancel.is_cancelled();
      if (gives_up || !may_help_to_retry(error)) throw;
      base::log_warning(base::str_cat("Step failed, retry ", retry, " of ", options.max_retries,
                                      ": ", error.what()));
    }
  }
}

void log_step(std::int64_t step, double loss, double seconds) {
  char text[96];
  std::snprintf(text, sizeof(text), ": loss = %.4f (%.3f sec/step)", loss, seconds);
  base::log_info(base::str_cat("global step ", step, text));
}

}  // namespace

TrainStepResult train_step(const TrainOp& train_op) {
  return {.loss = train_op()};
}

std::optional<double> train(const TrainOp& train_op, const TrainOptions& options) {
  check(options, train_op);
  const base::SystemClock system_clock;
  const base::Clock& clock = options.clock != nullptr ? *options.clock : system_clock;
  std::int64_t step = train_op.global_step();
  std::optional<at::Tensor> loss;
  while (!options.cancel.is_cancelled() &&
         (!options.number_of_steps || step < *options.number_of_steps)) {
    const auto begin = clock.now();
    const TrainStepResult result = step_with_retries(train_op, options);
    if (!result.loss) break;
    loss = result.loss;
    step = train_op.global_step();
    if (options.log_every_n_steps > 0 && step % options.log_every_n_steps == 0) {
      const auto value = loss->item<double>();
      log_step(step, value, std::chrono::duration<double>(clock.now() - begin).count());
    }
    if (result.should_stop == ShouldStop::kYes) break;
  }
  if (!loss) return std::nullopt;
  return loss->item<double>();
}

}  // namespace brigade::slim::learning

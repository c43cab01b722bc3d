#include "brigade/train/hooks/stop_after_n_evals_hook.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::train {

StopAfterNEvalsHook::StopAfterNEvalsHook(std::int64_t num_evals, LogProgress log_progress)
    : num_evals_(num_evals), log_progress_(log_progress) {
  check_argument(num_evals > 0, base::str_cat("StopAfterNEvalsHook: num_evals is ", num_evals,
                                              " and must be at least 1."));
}

void StopAfterNEvalsHook::begin(SessionContext&) {
  done_ = 0;
}

void StopAfterNEvalsHook::after_run(SessionContext& context, const StepValues&) {
  ++done_;
  const std::int64_t tenth = std::max<std::int64_t>(1, num_evals_ / 10);
  const bool is_told = done_ % tenth == 0 || done_ == num_evals_;
  if (log_progress_ == LogProgress::kYes && is_told)
    base::log_info(base::str_cat("Evaluation [", done_, "/", num_evals_, "]"));
  if (done_ >= num_evals_) context.request_stop();
}

}  // namespace brigade::train

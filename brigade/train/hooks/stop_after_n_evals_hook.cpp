#include "brigade/train/hooks/stop_after_n_evals_hook.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::train {
namespace {

class EvalsCounter final : public SessionRunHook {
 public:
  explicit EvalsCounter(const StopAfterNEvalsHook& options) : options_(options) {
    check_argument(options.num_evals > 0,
                   base::str_cat("StopAfterNEvalsHook: num_evals is ", options.num_evals,
                                 " and must be at least 1."));
  }

  void begin(SessionContext&) override { done_ = 0; }

  void after_run(SessionContext& context, const StepValues&) override {
    ++done_;
    const std::int64_t num_evals = options_.num_evals;
    const std::int64_t tenth = std::max<std::int64_t>(1, num_evals / 10);
    if (options_.log_progress && (done_ % tenth == 0 || done_ == num_evals))
      base::log_info(base::str_cat("Evaluation [", done_, "/", num_evals, "]"));
    if (done_ >= num_evals) context.request_stop();
  }

 private:
  const StopAfterNEvalsHook options_;
  std::int64_t done_ = 0;
};

}  // namespace

std::shared_ptr<SessionRunHook> StopAfterNEvalsHook::hook() const {
  return std::make_shared<EvalsCounter>(*this);
}

}  // namespace brigade::train

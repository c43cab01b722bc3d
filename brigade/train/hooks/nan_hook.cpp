#include "brigade/train/hooks/nan_hook.h"

#include <cmath>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"

namespace brigade::train {
namespace {

class NanCheck final : public SessionRunHook {
 public:
  explicit NanCheck(NanHook options) : options_(std::move(options)) {
    check_argument(
        options_.every_steps > 0,
        base::str_cat("NanHook::every_steps is ", options_.every_steps, "; it must be above 0."));
  }

  void after_run(SessionContext& context, const StepValues& values) override {
    if (context.global_step() % options_.every_steps != 0) return;
    const double value = values.number(options_.value);
    if (std::isfinite(value)) return;
    const std::string message = base::str_cat("'", options_.value, "' is ", value, " in step ",
                                              context.global_step(), ": the training diverged.");
    if (options_.then == NanHook::Then::kFail) throw Error(ErrorCode::kDataLoss, message);
    base::log_warning(message);
    context.request_stop(AtStop::kDiscard);
  }

 private:
  const NanHook options_;
};

}  // namespace

std::shared_ptr<SessionRunHook> NanHook::hook() const {
  return std::make_shared<NanCheck>(*this);
}

}  // namespace brigade::train

#include "brigade/train/hooks/global_step_waiter_hook.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/distribute/strategy.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {
namespace {

class GlobalStepWaiter final : public SessionRunHook {
 public:
  explicit GlobalStepWaiter(GlobalStepWaiterHook options) : options_(std::move(options)) {
    check_argument(options_.wait_until_step >= 0, "GlobalStepWaiterHook::wait_until_step is ",
                   options_.wait_until_step, "; it must be 0 or more.");
    check_argument(options_.poll.count() > 0, "GlobalStepWaiterHook::poll must be above 0.");
  }

  void before_run(SessionContext& context) override {
    if (is_reached_) return;
    const auto deadline = context.clock().now() + options_.max_wait;
    bool is_logged = false;
    while (!context.should_stop()) {
      const std::int64_t step = current_step(context);
      is_reached_ = step >= options_.wait_until_step;
      if (is_reached_) return;
      if (context.clock().now() >= deadline) {
        throw Error(ErrorCode::kDeadlineExceeded, "Waited ", options_.max_wait.count(),
                    " ms for step ", options_.wait_until_step, "; the job is at step ", step, ".");
      }
      if (!std::exchange(is_logged, true)) {
        base::log_info("Waiting for step ", options_.wait_until_step,
                       " before the first step of this worker; the current step is ", step, ".");
      }
      context.wait(options_.poll);
    }
  }

 private:
  std::int64_t current_step(const SessionContext& context) const {
    if (options_.global_step) return options_.global_step();
    const distribute::Strategy& strategy = context.state().strategy();
    if (strategy.global_step()) strategy.fetch_state();  // the number comes with the state
    return context.global_step();
  }

  const GlobalStepWaiterHook options_;
  bool is_reached_ = false;
};

}  // namespace

std::shared_ptr<SessionRunHook> GlobalStepWaiterHook::hook() const {
  return std::make_shared<GlobalStepWaiter>(*this);
}

}  // namespace brigade::train

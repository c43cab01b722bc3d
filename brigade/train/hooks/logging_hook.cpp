#include "brigade/train/hooks/logging_hook.h"

#include <cstdio>
#include <optional>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"

namespace brigade::train {

namespace {

std::string describe(const std::vector<std::string>& wanted, const StepValues& values) {
  std::vector<std::string> items;
  for (const std::string& name : wanted.empty() ? values.names() : wanted) {
    if (wanted.empty() && values.tensor(name).numel() != 1) continue;
    items.push_back(base::str_cat(name, " = ", values.number(name)));
  }
  return base::join(items, ", ");
}

std::string seconds(double time) {
  char text[32];
  std::snprintf(text, sizeof text, " (%.3f sec)", time);
  return text;
}

class StepLog final : public SessionRunHook {
 public:
  explicit StepLog(LoggingHook options) : options_(std::move(options)) {
    check_argument(!options_.every.is_never() || options_.at_end,
                   "LoggingHook would never log: set every, or at_end.");
  }

  void begin(SessionContext& context) override { timer_.emplace(options_.every, context.clock()); }

  void after_run(SessionContext& context, const StepValues& values) override {
    if (options_.at_end) last_ = values;
    if (timer_->is_due(context.global_step())) log(context.global_step(), values);
  }

  void end(SessionContext& context) override {
    if (!last_ || context.has_failed() || timer_->last_step() == context.global_step()) return;
    log(context.global_step(), *last_);
  }

 private:
  void log(std::int64_t step, const StepValues& values) {
    const auto elapsed = timer_->mark(step);
    if (options_.format) return base::log_info(options_.format(step, values));
    base::log_info(base::str_cat(describe(options_.values, values),
                                 elapsed ? seconds(elapsed->time.count()) : ""));
  }

  const LoggingHook options_;
  std::optional<StepTimer> timer_;
  std::optional<StepValues> last_;
};

}  // namespace

std::shared_ptr<SessionRunHook> LoggingHook::hook() const {
  return std::make_shared<StepLog>(*this);
}

}  // namespace brigade::train

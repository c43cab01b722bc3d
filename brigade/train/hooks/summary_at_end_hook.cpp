#include "brigade/train/hooks/summary_at_end_hook.h"

#include <optional>

#include "brigade/base/error.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/hooks/summary_saver_hook.h"

namespace brigade::train {
namespace {

class SummaryAtEnd final : public SessionRunHook {
 public:
  explicit SummaryAtEnd(SummaryAtEndHook options) : options_(std::move(options)) {
    check_argument(!options_.directory.empty(), "SummaryAtEndHook: directory is empty.");
    check_argument(static_cast<bool>(options_.values), "SummaryAtEndHook needs a function.");
  }

  void end(SessionContext& context) override {
    if (context.has_failed()) return;
    const StepValues values = options_.values(context);
    if (!summaries_) summaries_.emplace(context.files(), options_.directory, clock_);
    write_numbers(*summaries_, context.global_step(), values);
    summaries_->flush();
  }

 private:
  const SummaryAtEndHook options_;
  const base::SystemClock clock_;
  std::optional<summary::SummaryWriter> summaries_;
};

}  // namespace

std::shared_ptr<SessionRunHook> SummaryAtEndHook::hook() const {
  return std::make_shared<SummaryAtEnd>(*this);
}

}  // namespace brigade::train

#include "brigade/train/hooks/summary_at_end_hook.h"

#include "brigade/base/error.h"
#include "brigade/train/graph/number_summaries.h"

namespace brigade::train {

SummaryAtEndHook::SummaryAtEndHook(SummaryAtEndHookOptions options) : options_(std::move(options)) {
  check_argument(!options_.directory.empty(), "SummaryAtEndHook: directory is empty.");
  check_argument(static_cast<bool>(options_.values), "SummaryAtEndHook needs a function.");
}

void SummaryAtEndHook::end(SessionContext& context) {
  if (context.has_failed()) return;
  const StepValues values = options_.values(context);
  if (!summaries_) summaries_.emplace(context.files(), options_.directory, clock_);
  write_numbers(*summaries_, context.global_step(), values);
  summaries_->flush();
}

}  // namespace brigade::train

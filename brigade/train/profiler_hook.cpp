#include "brigade/train/profiler_hook.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/summary/trace.h"

namespace brigade::train {

ProfilerHook::ProfilerHook(ProfilerHookOptions options) : options_(std::move(options)) {
  check_argument(!options_.directory.empty(), "ProfilerHookOptions needs a directory.");
  check_argument(options_.steps || !options_.every.is_never(),
                 "ProfilerHookOptions: set steps or every.");
  const StepRange range = options_.steps.value_or(StepRange{});
  check_argument(range.first >= 1 && range.last >= range.first,
                 base::str_cat("ProfilerHookOptions::steps is ", range.first, " to ", range.last,
                               "; the first must be 1 or more and not behind the last."));
}

void ProfilerHook::begin(SessionContext& context) {
  timer_.emplace(options_.every, context.clock());
  context.files()->create_directories(options_.directory);
}

void ProfilerHook::before_run(SessionContext& context) {
  if (is_recording_) return;
  const std::int64_t step = context.global_step() + 1;
  const bool in_range =
      options_.steps && step >= options_.steps->first && step <= options_.steps->last;
  const bool is_due = timer_->is_due(step);
  if (!in_range && !is_due) return;
  if (is_due) timer_->mark(step);
  last_ = in_range ? options_.steps->last : step;
  is_recording_ = true;
  context.spans().start();
}

void ProfilerHook::after_run(SessionContext& context, const StepValues&) {
  if (is_recording_ && context.global_step() >= last_) write(context);
}

void ProfilerHook::write(SessionContext& context) {
  is_recording_ = false;
  const std::vector<summary::TraceEvent> events = context.spans().stop();
  summary::write_chrome_trace(*context.files(), options_.directory, context.global_step(), events);
}

void ProfilerHook::end(SessionContext& context) {
  if (is_recording_) write(context);
}

}  // namespace brigade::train

#include "brigade/train/hooks/summary_saver_hook.h"

#include "brigade/base/error.h"
#include "brigade/train/graph/number_summaries.h"

namespace brigade::train {

SummarySaverHook::SummarySaverHook(SummarySaverHookOptions options)
    : options_(std::move(options)), graph_({.write_graph = options_.write_graph}) {
  if (!options_.summaries) options_.summaries = write_numbers;
}

void SummarySaverHook::begin(SessionContext& context) {
  check_state(context.summaries() != nullptr,
              "SummarySaverHook has no directory to write to: set SessionOptions::summary_dir or "
              "checkpoint_dir.");
  timer_.emplace(options_.every, context.clock());
}

void SummarySaverHook::before_run(SessionContext& context) {
  graph_.before_step(context.clock());
}

void SummarySaverHook::after_run(SessionContext& context, const StepValues& values) {
  graph_.after_step(*context.summaries(), context.state());
  if (!timer_->is_due(context.global_step())) return;
  options_.summaries(*context.summaries(), context.global_step(), values);
  timer_->mark(context.global_step());
}

void SummarySaverHook::end(SessionContext& context) {
  graph_.stop();
  if (timer_) context.summaries()->flush();
}

}  // namespace brigade::train

#include "brigade/train/summary_saver_hook.h"

#include <vector>

#include "brigade/base/error.h"

namespace brigade::train {

namespace {

void write_numbers(summary::SummaryWriter& summaries, std::int64_t step, const StepValues& values) {
  const std::vector<std::string> names = values.names();
  std::vector<summary::TaggedScalar> scalars;
  for (const std::string& name : names) {
    if (values.tensor(name).numel() == 1) scalars.push_back({name, values.number(name)});
  }
  if (!scalars.empty()) summaries.scalars(scalars, step);
}

}  // namespace

SummarySaverHook::SummarySaverHook(SummarySaverHookOptions options) : options_(std::move(options)) {
  if (!options_.summaries) options_.summaries = write_numbers;
}

void SummarySaverHook::begin(SessionContext& context) {
  check_state(context.summaries() != nullptr,
              "SummarySaverHook has no place to write to: set SessionOptions::summary_dir or "
              "checkpoint_dir.");
  timer_.emplace(options_.every, context.clock());
}

void SummarySaverHook::after_run(SessionContext& context, const StepValues& values) {
  if (!timer_->is_due(context.global_step())) return;
  options_.summaries(*context.summaries(), context.global_step(), values);
  timer_->mark(context.global_step());
}

void SummarySaverHook::end(SessionContext& context) {
  if (timer_) context.summaries()->flush();
}

}  // namespace brigade::train

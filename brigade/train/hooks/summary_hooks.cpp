#include "brigade/train/hooks/summary_hooks.h"

#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/graph/model_graph.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"

namespace brigade::train {

namespace {

class SummarySaver final : public SessionRunHook {
 public:
  explicit SummarySaver(SummarySaverHook options)
      : options_(std::move(options)), graph_({.write_graph = options_.write_graph}) {
    if (!options_.summaries) options_.summaries = write_numbers;
  }

  void begin(SessionContext& context) override {
    check_state(context.summaries() != nullptr,
                "SummarySaverHook has no directory to write to: set SessionOptions::summary_dir or "
                "checkpoint_dir.");
    timer_.emplace(options_.every, context.clock());
  }

  void before_run(SessionContext& context) override { graph_.before_step(context.clock()); }

  void after_run(SessionContext& context, const StepValues& values) override {
    graph_.after_step(*context.summaries(), context.state());
    if (!timer_->is_due(context.global_step())) return;
    options_.summaries(*context.summaries(), context.global_step(), values);
    timer_->mark(context.global_step());
  }

  void end(SessionContext& context) override {
    graph_.stop();
    if (timer_) context.summaries()->flush();
  }

 private:
  SummarySaverHook options_;
  std::optional<StepTimer> timer_;
  GraphWriter graph_;
};

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

void write_numbers(summary::SummaryWriter& summaries, std::int64_t step, const StepValues& values) {
  const std::vector<std::string> names = values.names();  // the scalars refer to them
  std::vector<summary::TaggedScalar> scalars;
  for (const std::string& name : names) {
    if (values.tensor(name).numel() == 1) scalars.push_back({name, values.number(name)});
  }
  if (!scalars.empty()) summaries.scalars(scalars, step);
}

std::shared_ptr<SessionRunHook> SummarySaverHook::hook() const {
  return std::make_shared<SummarySaver>(*this);
}

std::shared_ptr<SessionRunHook> SummaryAtEndHook::hook() const {
  return std::make_shared<SummaryAtEnd>(*this);
}

}  // namespace brigade::train

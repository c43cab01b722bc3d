#include "brigade/train/hooks/summary_hooks.h"

#include <optional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/distribute/strategy.h"
#include "brigade/summary/histogram.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/graph/model_graph.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

namespace {

/// Writes the staleness of updates since it was written last.
class StalenessWriter {
 public:
  /// `all`: of all updates of this worker.
  void write(summary::SummaryWriter& summaries, const distribute::UpdateStaleness& all,
             std::int64_t step) {
    const distribute::UpdateStaleness recent = all.since(written_);
    if (recent.total() == 0) return;
    summary::HistogramCounter counter;
    for (const auto& [staleness, count] : recent.updates) {
      const std::vector<double> equal(static_cast<std::size_t>(count),
                                      static_cast<double>(staleness));
      counter.add(equal);
    }
    summaries.histogram(kStalenessTag, counter.histogram(), step);
    written_ = all;
  }

 private:
  distribute::UpdateStaleness written_;
};

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
    if (options_.write_staleness) write_staleness(context);
    timer_->mark(context.global_step());
  }

  void end(SessionContext& context) override {
    graph_.stop();
    if (timer_) context.summaries()->flush();
  }

 private:
  void write_staleness(SessionContext& context) {
    if (const auto staleness = context.state().strategy().staleness())
      staleness_.write(*context.summaries(), *staleness, context.global_step());
  }

  SummarySaverHook options_;
  std::optional<StepTimer> timer_;
  GraphWriter graph_;
  StalenessWriter staleness_;
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

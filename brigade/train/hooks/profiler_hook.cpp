#include "brigade/train/hooks/profiler_hook.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/strategy.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/summary/trace.h"
#include "brigade/train/graph/model_graph.h"
#include "brigade/train/graph/operation_recorder.h"
#include "brigade/train/graph/stage_trace.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {
namespace {

class Profiler final : public SessionRunHook {
 public:
  explicit Profiler(ProfilerHook options) : options_(std::move(options)) {
    check_argument(!options_.directory.empty(), "ProfilerHook needs a directory.");
    check_argument(options_.steps || !options_.every.is_never(),
                   "ProfilerHook: set steps or every.");
    const StepRange range = options_.steps.value_or(StepRange{});
    check_argument(range.first >= 1 && range.last >= range.first, "ProfilerHook::steps is ",
                   range.first, " to ", range.last,
                   "; the first must be 1 or more and not after the last.");
  }

  void begin(SessionContext& context) override {
    const distribute::Strategy& strategy = context.state().strategy();
    profiles_ = strategy.is_chief() || strategy.has_worker_collectives();
    if (!profiles_) return;
    timer_.emplace(options_.every, context.clock());
    context.files()->create_directories(options_.directory);
  }

  void after_create_session(SessionContext& context) override {
    is_range_ahead_ = options_.steps && context.global_step() < options_.steps->last;
  }

  void before_run(SessionContext& context) override {
    if (!profiles_) return;
    const std::int64_t step = context.global_step() + 1;
    if (!is_recording_) {
      // The steps of workers that count together are not consecutive, and may pass over the range.
      const bool in_range = is_range_ahead_ && step >= options_.steps->first;
      if (in_range) is_range_ahead_ = false;
      const bool is_due = timer_->is_due(step);
      if (is_due) timer_->mark(step);
      if (!in_range && !is_due) return;
      last_ = in_range ? options_.steps->last : step;
      is_recording_ = true;
      context.spans().start();
    }
    // Recorded step by step: between steps the thread belongs to the program.
    operations_.emplace(context.clock());
    operations_->start();
  }

  void after_run(SessionContext& context, const StepValues&) override {
    if (!is_recording_) return;
    take_operations();
    take_stages(context.state().strategy());
    if (context.global_step() >= last_) write(context);
  }

  void end(SessionContext& context) override {
    operations_.reset();  // of an unfinished step
    if (is_recording_) write(context);
  }

 private:
  void take_operations() {
    last_step_ = operations_->stop();
    operations_.reset();
    for (const Operation& operation : last_step_.operations) {
      // Row 0 is for spans.
      const auto [row, is_new] = rows_.try_emplace({operation.replica, operation.thread}, 0);
      if (is_new) row->second = static_cast<std::int64_t>(rows_.size());
      const bool is_backward = operation.kind == Operation::Kind::kBackward;
      events_.push_back({.name = operation.name,
                         .category = is_backward ? "backward" : "operation",
                         .begin = operation.begin,
                         .duration = operation.duration,
                         .replica = std::max<std::int64_t>(operation.replica, 0),
                         .thread = row->second,
                         .args = {}});
    }
  }

  /// Of a strategy with stages; their rows come after those of the replicas.
  void take_stages(const distribute::Strategy& strategy) {
    const std::optional<concurrency::StageTimeline> timeline = strategy.stage_timeline();
    if (!timeline) return;
    const std::int64_t group = strategy.num_local_replicas();
    const auto events = trace_events(*timeline, group);
    events_.insert(events_.end(), events.begin(), events.end());
    stage_names_ = trace_names(*timeline, group);
  }

  void write(SessionContext& context) {
    is_recording_ = false;
    std::vector<summary::TraceEvent> events = context.spans().stop();
    events.insert(events.end(), events_.begin(), events_.end());
    summary::TraceNames names = stage_names_;
    for (const auto& [key, row] : rows_) {
      const bool is_outside = key.first < 0;
      const std::int64_t replica = is_outside ? 0 : key.first;
      names.replicas[replica] = base::str_cat("replica ", replica);
      names.threads[{replica, row}] = is_outside ? "operations outside of replicas" : "operations";
    }
    names.replicas[0] = "replica 0";
    names.threads[{0, 0}] = "session";
    summary::write_chrome_trace(*context.files(), options_.directory, context.global_step(), events,
                                names);
    write_timings(context);
    last_step_ = {};
    events_.clear();
    rows_.clear();
  }

  void write_timings(SessionContext& context) {
    if (context.summaries() == nullptr || last_step_.backward_roots.empty()) return;
    const TrainingState& state = context.state();
    const ModelGraph graph = model_graph(state.strategy(), state.variables(), last_step_);
    context.summaries()->run_metadata(base::str_cat("step_", context.global_step()),
                                      node_timings(graph, last_step_), context.global_step());
  }

  const ProfilerHook options_;
  bool profiles_ = true;  // in this worker
  bool is_range_ahead_ = false;
  std::optional<StepTimer> timer_;
  bool is_recording_ = false;
  std::int64_t last_ = 0;  // of the current recording
  std::optional<OperationRecorder> operations_;
  OperationRecord last_step_;
  std::vector<summary::TraceEvent> events_;  // operations of the recorded steps
  std::map<std::pair<std::int64_t, std::uint64_t>, std::int64_t> rows_;  // by replica and thread
  summary::TraceNames stage_names_;
};

}  // namespace

std::shared_ptr<SessionRunHook> ProfilerHook::hook() const {
  return std::make_shared<Profiler>(*this);
}

}  // namespace brigade::train

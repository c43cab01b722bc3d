#include "brigade/train/hooks/step_time_hooks.h"

#include <optional>
#include <string>
#include <vector>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/step_times.h"
#include "brigade/distribute/strategy.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

namespace {

class StepCounter final : public SessionRunHook {
 public:
  explicit StepCounter(Every every) : every_(every) {}

  void begin(SessionContext& context) override { timer_.emplace(every_, context.clock()); }

  void after_create_session(SessionContext& context) override {
    timer_->reset();
    timer_->mark(context.global_step());
  }

  void after_run(SessionContext& context, const StepValues&) override {
    const std::int64_t step = context.global_step();
    if (!timer_->is_due(step)) return;
    const auto elapsed = timer_->mark(step);
    if (!elapsed || elapsed->time.count() <= 0) return;
    const double rate = static_cast<double>(elapsed->steps) / elapsed->time.count();
    base::log_info(base::str_cat("global_step/sec: ", rate));
    if (context.summaries() != nullptr) context.summaries()->scalar("global_step/sec", rate, step);
  }

 private:
  const Every every_;
  std::optional<StepTimer> timer_;
};

}  // namespace

std::shared_ptr<SessionRunHook> StepCounterHook::hook() const {
  return std::make_shared<StepCounter>(every);
}

using distribute::StepTimes;

namespace {

/// Writes all scalars in one record; the tags must live until it is written.
void write_fractions(summary::SummaryWriter& summaries, std::int64_t step,
                     const std::vector<StepTimes>& replicas) {
  std::vector<std::string> tags;
  std::vector<double> fractions;
  for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
    for (const comm::StepPhase phase : comm::kStepPhases) {
      tags.push_back(base::str_cat("step_shares/replica_", replica, "/", comm::to_string(phase)));
      fractions.push_back(replicas[replica].fraction(phase));
    }
  }
  std::vector<summary::TaggedScalar> scalars;
  for (std::size_t i = 0; i < tags.size(); ++i) scalars.push_back({tags[i], fractions[i]});
  summaries.scalars(scalars, step);
}

class StepBreakdown final : public SessionRunHook {
 public:
  explicit StepBreakdown(Every every) : every_(every) {}

  void begin(SessionContext& context) override {
    timer_.emplace(every_, context.clock());
    context.state().strategy().measure_steps(distribute::StepMeasuring::kOn);
  }

  void after_create_session(SessionContext& context) override {
    timer_->reset();
    timer_->mark(context.global_step());
    last_ = context.state().strategy().step_times();
  }

  void after_run(SessionContext& context, const StepValues&) override {
    const std::int64_t step = context.global_step();
    if (!timer_->is_due(step)) return;
    timer_->mark(step);
    const std::vector<StepTimes> replicas = since_last(context);
    const std::string text = distribute::describe_step_breakdown(replicas);
    if (text.empty()) return;
    base::log_info(text);
    if (context.summaries() != nullptr) write_fractions(*context.summaries(), step, replicas);
  }

  void end(SessionContext& context) override {
    context.state().strategy().measure_steps(distribute::StepMeasuring::kOff);
  }

 private:
  std::vector<StepTimes> since_last(SessionContext& context) {
    const std::vector<StepTimes> now = context.state().strategy().step_times();
    std::vector<StepTimes> spent = now;
    for (std::size_t i = 0; i < spent.size() && i < last_.size(); ++i) {
      if (now[i].steps < last_[i].steps) continue;  // the times have been reset since
      spent[i].steps -= last_[i].steps;
      for (std::size_t p = 0; p < spent[i].phases.size(); ++p)
        spent[i].phases[p] -= last_[i].phases[p];
    }
    last_ = now;
    return spent;
  }

  const Every every_;
  std::optional<StepTimer> timer_;
  std::vector<StepTimes> last_;  // [replica]
};

}  // namespace

std::shared_ptr<SessionRunHook> StepBreakdownHook::hook() const {
  return std::make_shared<StepBreakdown>(every);
}

}  // namespace brigade::train

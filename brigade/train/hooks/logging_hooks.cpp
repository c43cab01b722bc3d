#include "brigade/train/hooks/logging_hooks.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/step_times.h"
#include "brigade/distribute/strategy.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

using distribute::StepTimes;

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
    base::log_info(describe(options_.values, values),
                   elapsed ? seconds(elapsed->time.count()) : "");
  }

  const LoggingHook options_;
  std::optional<StepTimer> timer_;
  std::optional<StepValues> last_;
};

/// Reports on the steps since the start of the session, a recovery, or the last report.
class PeriodicReport : public SessionRunHook {
 public:
  explicit PeriodicReport(Every every) : every_(every) {}

  void begin(SessionContext& context) override { timer_.emplace(every_, context.clock()); }

  void after_create_session(SessionContext& context) override {
    timer_->reset();
    timer_->mark(context.global_step());
  }

  void after_run(SessionContext& context, const StepValues&) final {
    if (!timer_->is_due(context.global_step())) return;
    if (const auto elapsed = timer_->mark(context.global_step())) report(context, *elapsed);
  }

 private:
  virtual void report(SessionContext& context, const StepTimer::Elapsed& elapsed) = 0;
  const Every every_;
  std::optional<StepTimer> timer_;
};

class StepCounter final : public PeriodicReport {
 public:
  using PeriodicReport::PeriodicReport;

 private:
  void report(SessionContext& context, const StepTimer::Elapsed& elapsed) override {
    if (elapsed.time.count() <= 0) return;
    const double rate = static_cast<double>(elapsed.steps) / elapsed.time.count();
    base::log_info("global_step/sec: ", rate);
    if (context.summaries() != nullptr)
      context.summaries()->scalar("global_step/sec", rate, context.global_step());
  }
};

/// Writes all scalars in one record; the tags must live until it is written.
void write_fractions(summary::SummaryWriter& summaries, std::int64_t step,
                     const std::vector<StepTimes>& replicas, double outside) {
  std::vector<std::string> tags = {"time_outside_steps"};
  std::vector<double> fractions = {outside};
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

/// The fraction of `elapsed` in which no step ran.
double outside_steps(const StepTimes& steps, const StepTimer::Elapsed& elapsed) {
  if (elapsed.time.count() <= 0) return 0;
  const std::chrono::duration<double> inside = steps.total();
  return std::clamp(1 - inside / elapsed.time, 0.0, 1.0);
}

class StepBreakdown final : public PeriodicReport {
 public:
  explicit StepBreakdown(const StepBreakdownHook& options)
      : PeriodicReport(options.every), logs_(options.logs) {}

  void begin(SessionContext& context) override {
    PeriodicReport::begin(context);
    context.state().strategy().measure_steps(distribute::StepMeasuring::kOn);
  }

  void after_create_session(SessionContext& context) override {
    PeriodicReport::after_create_session(context);
    last_ = context.state().strategy().step_times();
  }

  void end(SessionContext& context) override {
    context.state().strategy().measure_steps(distribute::StepMeasuring::kOff);
  }

 private:
  void report(SessionContext& context, const StepTimer::Elapsed& elapsed) override {
    const std::vector<StepTimes> replicas = since_last(context);
    const std::string text = distribute::describe_step_breakdown(replicas);
    if (text.empty()) return;
    if (logs_) base::log_info(text);
    if (context.summaries() == nullptr) return;
    write_fractions(*context.summaries(), context.global_step(), replicas,
                    outside_steps(replicas.front(), elapsed));
  }

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

  const bool logs_;
  std::vector<StepTimes> last_;  // [replica]
};

}  // namespace

std::shared_ptr<SessionRunHook> LoggingHook::hook() const {
  return std::make_shared<StepLog>(*this);
}

std::shared_ptr<SessionRunHook> StepCounterHook::hook() const {
  return std::make_shared<StepCounter>(every);
}

std::shared_ptr<SessionRunHook> StepBreakdownHook::hook() const {
  return std::make_shared<StepBreakdown>(*this);
}

}  // namespace brigade::train

#include "apps/brigade/training_loop.h"

#include <algorithm>

#include "apps/brigade/report.h"
#include "apps/brigade/strategy_flags.h"
#include "brigade/base/log.h"
#include "brigade/train/hooks/stop_hooks.h"

namespace brigade::command {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWarmupSteps = 10;
// Less than a launcher's usual grace.
constexpr std::chrono::seconds kStepPatience{5};

std::int64_t warmup_steps(const Training& training) {
  const std::int64_t known = training.steps.value_or(training.batches.cardinality());
  // With accumulation there are more batches than steps; then a few more steps count as warm-up.
  return known < 0 ? kWarmupSteps : std::min(kWarmupSteps, known / 5);
}

// Counts steps and examples, and measures the warm-up separately.
class Meter {
 public:
  explicit Meter(std::int64_t warmup) : warmup_(warmup), begin_(Clock::now()), warm_(begin_) {}

  void count(std::int64_t examples) {
    ++steps_;
    examples_ += examples;
    if (steps_ != warmup_) return;
    warm_ = Clock::now();
    warm_examples_ = examples_;
  }

  /// Subtracts `time`.
  void leave_out(Clock::duration time) {
    begin_ += time;
    if (steps_ >= warmup_) warm_ += time;
  }

  /// Whether the next step counted will be the last of the warm-up.
  bool is_nearly_warm() const { return steps_ + 1 == warmup_; }
  /// Whether the last step counted was the last of the warm-up.
  bool has_just_warmed_up() const { return warmup_ > 0 && steps_ == warmup_; }
  std::int64_t steps() const { return steps_; }
  std::int64_t examples() const { return examples_; }

  TrainingResult result() const {
    const auto end = Clock::now();
    const bool is_warm = steps_ > warmup_;
    const double seconds = seconds_between(begin_, end);
    const double warm_seconds = is_warm ? seconds_between(warm_, end) : seconds;
    const std::int64_t warm_examples = is_warm ? examples_ - warm_examples_ : examples_;
    return {.steps = steps_,
            .examples = examples_,
            .seconds = seconds,
            .warmup_steps = is_warm ? warmup_ : 0,
            .examples_per_second = rate(warm_examples, warm_seconds),
            .examples_per_second_total = rate(examples_, seconds)};
  }

 private:
  static double rate(std::int64_t count, double seconds) {
    return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
  }

  std::int64_t warmup_;
  Clock::time_point begin_, warm_;
  std::int64_t steps_ = 0, examples_ = 0, warm_examples_ = 0;
};

using Losses = std::optional<distribute::PerReplica<at::Tensor>>;

/// One update, of as many batches as are accumulated for it, fewer at the end of the data. Returns
/// the examples trained on, 0 if there was no batch left; `losses` are the last batch's.
std::int64_t make_step(const TrainingStep& step,
                       distribute::DistributedIterator<input::LabeledBatch>& batches,
                       Losses& losses, train::Spans& spans) {
  std::int64_t examples = 0;
  do {
    const auto batch = spans.measure("next batch", "input", [&] { return batches.next(); });
    if (!batch) {
      step.optimizer.flush();
      break;
    }
    losses =
        spans.measure("forward, backward, update", "compute", [&] { return step.run(*batch); });
    examples += batch->examples()->global;
  } while (!step.optimizer.is_update_step());
  return examples;
}

train::SessionOptions session_options(const Training& training, const Losses& losses) {
  train::SessionOptions options = training.session;
  // Computed only when it is written, because reading the loss waits for the devices.
  if (!training.step.strategy.has_worker_collectives())
    options.scaffold.summaries = [&](summary::SummaryWriter& writer, std::int64_t step,
                                     const train::StepValues&) {
      if (losses) writer.scalar("loss", training.step.mean(*losses), step);
    };
  if (training.steps) {
    options.hooks.push_back(train::StopAtStepHook{.last_step = *training.steps});
  }
  return options;
}

/// The signal that stopped any of the workers: they all stop together.
std::optional<int> agreed_signal(const distribute::Strategy& strategy, std::optional<int> own) {
  const auto signal = static_cast<int>(strategy.all_reduce_max(own.value_or(0)));
  return signal == 0 ? std::nullopt : std::optional(signal);
}

/// `most` becomes the larger of both at each index.
void keep_most(std::vector<int>& most, const std::vector<int>& values) {
  most.resize(std::max(most.size(), values.size()), 0);
  for (std::size_t i = 0; i < values.size(); ++i) most[i] = std::max(most[i], values[i]);
}

/// A counter that is saved in checkpoints.
train::Checkpointable counter_state(const std::string& name, std::int64_t& count) {
  return {.name = name,
          .save = [&count] { return train::CheckpointableState{.tree = io::StateTree(count)}; },
          .restore =
              [&count](const train::CheckpointableState& saved) { count = saved.tree.as_int64(); }};
}

}  // namespace

std::optional<optim::ExponentialMovingAverage> make_averages(const StepFlags& flags,
                                                             const Model& model) {
  if (!flags.ema) return std::nullopt;
  std::vector<variables::Variable> averaged;
  for (const variables::Variable& each : model.variables())
    if (at::isFloatingType(each.dtype())) averaged.push_back(each);
  return std::optional<optim::ExponentialMovingAverage>(
      std::in_place, optim::MovingAverageOptions{.decay = *flags.ema}, averaged);
}

TrainingResult run_training(const Training& training, train::Progress& progress,
                            const Interrupt& interrupt) {
  distribute::Strategy& strategy = training.step.strategy;
  // Resuming from a checkpoint may read much of the data again. Several workers stop together, at a
  // step that they agree on, so none of them gives up here.
  std::optional<StartWatch> start(
      std::in_place, interrupt,
      StartWatchOptions{.token = training.cancel.value_or(concurrency::CancelToken())});
  const auto cancel =
      strategy.has_worker_collectives() ? concurrency::CancelToken() : start->token();
  auto distributed = strategy.distribute(training.batches, training.input);
  if (training.normalizer)
    distributed = distributed.map_on_replica(training.normalizer, {.draws = false});
  auto batches = distributed.iterator(cancel);
  std::int64_t examples = 0;  // including earlier processes, as the global step
  Losses losses;
  train::TrainingState state(strategy);
  state.add_model(training.step.model);
  state.add_optimizer(training.optimizer, training.step.optimizer);
  if (training.schedule) state.add_schedule(training.optimizer, training.schedule);
  if (training.averages != nullptr) state.add_averages(kAveragesName, *training.averages);
  state.add_iterator("train", batches);
  state.add(counter_state("examples", examples));
  const auto begin = [&] {
    return std::make_unique<train::MonitoredTrainingSession>(state,
                                                             session_options(training, losses));
  };
  // A strategy whose waits were cancelled cannot train any more.
  const auto begun = training.cancel
                         ? start->guard("the chief to initialize or restore the variables", begin)
                         : start->attempt("the input to reach the checkpoint's position", begin);
  start.reset();  // from here on a signal ends the training after the current step
  std::optional<StartWatch> late;
  if (training.cancel)
    late.emplace(interrupt, StartWatchOptions{.token = *training.cancel,
                                              .patience = kStepPatience,
                                              .waiting_since = [&calls = *training.calls] {
                                                return calls.in_call_since();
                                              }});
  train::MonitoredTrainingSession& session = *begun;

  const std::int64_t first_step = state.global_step();
  if (first_step > 0) base::log_info("resuming from step ", first_step);
  Meter meter(warmup_steps(training));
  const bool writes_loss =
      strategy.has_worker_collectives() && !training.session.summary_dir.empty();
  std::optional<int> signal;
  std::optional<Clock::time_point> signaled;
  const distribute::PipelineStrategy* const pipeline = pipeline_of(strategy);
  std::vector<int> peaks;
  strategy.reset_step_times();
  strategy.measure_steps(distribute::StepMeasuring::kOn);
  const auto evaluation_time = [&] {
    return training.evaluation ? training.evaluation->time() : Clock::duration::zero();
  };
  while (!session.should_stop()) {
    signal = interrupt.received();
    if (signal && !signaled) signaled = Clock::now();
    if (signal && (training.stops_after_step || Clock::now() - *signaled >= kStepPatience))
      session.request_stop();  // several workers stop at the next step they agree on
    if (session.should_stop()) break;
    const auto evaluated_before = evaluation_time();
    session.run([&]() -> std::optional<train::StepValues> {
      const std::int64_t taken = make_step(training.step, batches, losses, session.spans());
      if (taken == 0) return std::nullopt;
      if (pipeline) keep_most(peaks, pipeline->peak_micro_batches());
      if (training.averages != nullptr) training.averages->update();
      examples += taken;
      if (meter.is_nearly_warm()) strategy.wait_for_devices();
      meter.count(taken);
      if (meter.has_just_warmed_up()) strategy.reset_step_times();
      train::StepValues values;
      if (writes_loss) values.set("loss", training.step.mean(*losses));
      return values;
    });
    meter.leave_out(evaluation_time() - evaluated_before);
    if (losses && session.context().broadcast_from_chief(progress.is_due())) {
      progress.report({state.global_step(), examples, training.step.mean(*losses)});
    }
  }
  late.reset();  // saving may take longer
  strategy.measure_steps(distribute::StepMeasuring::kOff);
  strategy.wait_for_devices();
  TrainingResult result = meter.result();
  result.peak_micro_batches = peaks;
  result.step_times = strategy.step_times();
  result.staleness = strategy.staleness();
  result.first_step = first_step;
  result.own_steps = result.steps;
  result.steps = state.global_step();
  result.examples = examples;
  result.signal = agreed_signal(strategy, signal ? signal : interrupt.received());
  if (losses) result.final_loss = training.step.mean(*losses);
  if (losses) progress.report({result.steps, result.examples, *result.final_loss});
  progress.finish();
  session.close();
  return result;
}

}  // namespace brigade::command

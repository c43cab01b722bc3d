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
  void exclude(Clock::duration time) {
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

using Losses = std::optional<distribute::PerReplica<distribute::StepLoss>>;

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

/// A training from its start to its end.
class TrainingLoop {
 public:
  TrainingLoop(const Training& training, train::Progress& progress, const Interrupt& interrupt)
      : training_(training),
        strategy_(training.step.strategy),
        progress_(progress),
        interrupt_(interrupt),
        start_(std::in_place, interrupt,
               StartWatchOptions{.token = training.cancel.value_or(concurrency::CancelToken())}),
        distributed_(distribute_batches()),
        batches_(distributed_.iterator(token_of_input())),
        state_(strategy_) {
    state_.add_model(training.step.model);
    state_.add_optimizer(training.optimizer, training.step.optimizer);
    if (training.schedule) state_.add_schedule(training.optimizer, training.schedule);
    if (training.averages != nullptr) state_.add_averages(kAveragesName, *training.averages);
    state_.add_iterator("train", batches_);
    state_.add(counter_state("examples", examples_));
  }

  TrainingResult run() {
    begin_session();
    const std::int64_t first_step = state_.global_step();
    if (first_step > 0) base::log_info("resuming from step ", first_step);
    meter_.emplace(warmup_steps(training_));
    strategy_.reset_step_times();
    strategy_.measure_steps(distribute::StepMeasuring::kOn);
    const std::size_t progress_timer =
        session_->context().add_timer([this](std::int64_t) { return progress_.is_due(); });
    while (!session_->should_stop()) {
      check_signal();
      if (session_->should_stop()) break;
      make_session_step();
      if (losses_ && session_->context().is_due(progress_timer)) report();
    }
    late_.reset();  // saving may take longer
    strategy_.measure_steps(distribute::StepMeasuring::kOff);
    strategy_.wait_for_devices();
    const TrainingResult made = result(first_step);
    if (losses_) progress_.report({made.steps, made.examples, *made.final_loss});
    progress_.finish();
    session_->close();
    return made;
  }

 private:
  distribute::DistributedDataset<input::LabeledBatch> distribute_batches() const {
    auto distributed = strategy_.distribute(training_.batches, training_.input);
    if (training_.normalizer)
      distributed = distributed.map_on_replica(training_.normalizer, {.draws = false});
    return distributed;
  }

  /// Resuming from a checkpoint may read much of the data again, which a signal should end. Several
  /// workers stop together, at a step that they agree on, so none of them stops while it reads.
  concurrency::CancelToken token_of_input() const {
    return strategy_.has_worker_collectives() ? concurrency::CancelToken() : start_->token();
  }

  void begin_session() {
    const auto begin = [&] {
      return std::make_unique<train::MonitoredTrainingSession>(state_,
                                                               session_options(training_, losses_));
    };
    // A strategy whose waits were cancelled cannot train any more.
    session_ = training_.cancel
                   ? start_->guard("the chief to initialize or restore the variables", begin)
                   : start_->attempt("the input to reach the checkpoint's position", begin);
    start_.reset();  // from here on a signal ends the training after the current step
    if (!training_.cancel) return;
    late_.emplace(interrupt_, StartWatchOptions{.token = *training_.cancel,
                                                .patience = kStepPatience,
                                                .waiting_since = [&calls = *training_.calls] {
                                                  return calls.in_call_since();
                                                }});
  }

  void check_signal() {
    signal_ = interrupt_.received();
    if (!signal_) return;
    if (!signaled_) signaled_ = Clock::now();
    if (training_.stops_after_step || Clock::now() - *signaled_ >= kStepPatience)
      session_->request_stop();  // several workers stop at the next step they agree on
  }

  void make_session_step() {
    const auto evaluated_before = evaluation_time();
    session_->run([&] { return step_values(); });
    meter_->exclude(evaluation_time() - evaluated_before);
  }

  /// Makes one update. Nothing if the data has ended.
  std::optional<train::StepValues> step_values() {
    const std::int64_t taken = make_step(training_.step, batches_, losses_, session_->spans());
    if (taken == 0) return std::nullopt;
    if (const distribute::PipelineStrategy* const pipeline = pipeline_of(strategy_))
      keep_most(peaks_, pipeline->peak_micro_batches());
    if (training_.averages != nullptr) training_.averages->update();
    examples_ += taken;
    if (meter_->is_nearly_warm()) strategy_.wait_for_devices();
    meter_->count(taken);
    if (meter_->has_just_warmed_up()) strategy_.reset_step_times();
    train::StepValues values;
    const bool writes_loss =
        strategy_.has_worker_collectives() && !training_.session.summary_dir.empty();
    if (writes_loss) values.set("loss", training_.step.mean(*losses_));
    return values;
  }

  void report() {
    progress_.report({state_.global_step(), examples_, training_.step.mean(*losses_)});
  }

  TrainingResult result(std::int64_t first_step) const {
    TrainingResult result = meter_->result();
    result.peak_micro_batches = peaks_;
    result.step_times = strategy_.step_times();
    result.staleness = strategy_.staleness();
    result.first_step = first_step;
    result.own_steps = result.steps;
    result.steps = state_.global_step();
    result.examples = examples_;
    result.signal = agreed_signal(strategy_, signal_ ? signal_ : interrupt_.received());
    if (losses_) result.final_loss = training_.step.mean(*losses_);
    return result;
  }

  Clock::duration evaluation_time() const {
    return training_.evaluation ? training_.evaluation->time() : Clock::duration::zero();
  }

  const Training& training_;
  distribute::Strategy& strategy_;
  train::Progress& progress_;
  const Interrupt& interrupt_;
  std::optional<StartWatch> start_;  // until the session has begun
  distribute::DistributedDataset<input::LabeledBatch> distributed_;
  distribute::DistributedIterator<input::LabeledBatch> batches_;
  std::int64_t examples_ = 0;  // including earlier processes, as the global step
  Losses losses_;
  train::TrainingState state_;
  std::unique_ptr<train::MonitoredTrainingSession> session_;
  std::optional<StartWatch> late_;  // of waits in steps, with `Training::cancel`
  std::optional<Meter> meter_;
  std::optional<int> signal_;
  std::optional<Clock::time_point> signaled_;
  std::vector<int> peaks_;
};

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
  return TrainingLoop(training, progress, interrupt).run();
}

}  // namespace brigade::command

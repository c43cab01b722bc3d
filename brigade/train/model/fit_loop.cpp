#include "brigade/train/model/fit_loop.h"

#include <ATen/core/grad_mode.h>

#include <iostream>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/train/model/evaluate.h"

namespace brigade::train {

namespace {

FitPlan plan_of(const FitOptions& options, const internal::FitSteps& steps) {
  return {
      .initial_epoch = options.initial_epoch,
      .epochs = options.epochs,
      .steps_per_epoch = options.steps_per_epoch ? options.steps_per_epoch : steps.pass_length()};
}

}  // namespace

void FitContext::add_checkpointable(Checkpointable checkpointable) {
  const int before = checkpointable_names_[checkpointable.name]++;
  checkpointable.name =
      before == 0 ? base::str_cat("callback/", checkpointable.name)
                  : base::str_cat("callback/", checkpointable.name, "_", std::to_string(before));
  checkpointable.missing = checkpoint::Missing::kSkip;
  state_.add(std::move(checkpointable));
}

Logs evaluate_batches(internal::Trainer& trainer, const internal::DistributedBatches& data,
                      const std::optional<std::int64_t>& steps) {
  const at::NoGradGuard no_grad;
  const internal::EvaluationMode mode(trainer.network());
  trainer.reset();
  std::int64_t done = 0;
  auto batches = data.iterator();
  for (; !steps || done < *steps; ++done) {
    const auto batch = batches.next();
    if (!batch) break;
    trainer.test(*batch);
  }
  check_argument(done > 0, "There is no batch to evaluate.");
  if (steps && done < *steps) {
    base::log_warning("Evaluation ran out of data: ", done, " of ", *steps,
                      " batches. The metrics are over these batches.");
  }
  Logs logs = trainer.results();
  trainer.reset();
  return logs;
}

/// The epochs of one fit. Thread-safety: one thread, once.
class FitLoop {
 public:
  FitLoop(internal::Trainer& trainer, TrainingState& state, internal::FitSteps& steps,
          const FitOptions& options)
      : trainer_(trainer),
        steps_(steps),
        options_(options),
        callbacks_(options.callbacks),
        context_(plan_of(options, steps), state, trainer.optimizer(),
                 trainer.network().variables()) {
    if (options.verbose != Verbose::kSilent)
      callbacks_.emplace_back(make_progress_callback(std::cerr, options.verbose));
    context_.epoch_ = options.initial_epoch;
    add_checkpointables();
  }

  History run() {
    trainer_.reset();
    call(&Callback::on_train_begin);
    SessionOptions session_options = options_.session;
    for (const CallbackPtr& callback : callbacks_) callback->prepare_session(session_options);
    MonitoredTrainingSession session(context_.state(), std::move(session_options));
    while (context_.epoch_ < options_.epochs && !context_.should_stop() && !session.should_stop()) {
      const std::int64_t epoch = context_.epoch_;
      begin_epoch();
      session.context().agree_before_next_step();  // what a worker requested between the epochs
      run_steps(session);
      if (context_.epoch_ != epoch) continue;               // the session restored a checkpoint
      if (session.should_stop() && has_next_step()) break;  // a resumed fit ends the epoch
      if (!end_epoch(session)) break;
    }
    if (context_.epoch_ < options_.epochs && session.should_stop()) {
      context_.is_interrupted_ = !context_.should_stop();
      context_.stop("the session was asked to stop");
    }
    session.close();
    call(&Callback::on_train_end);
    history_.stop_reason = context_.stop_reason();
    return std::move(history_);
  }

 private:
  void add_checkpointables() {
    TrainingState& state = context_.state();
    steps_.add_to(state);
    for (const metrics::Metric* each : trainer_.all_metrics()) state.add_metric(*each);
    state.add({.name = "fit",
               .save =
                   [this] {
                     CheckpointableState saved{.tree = io::StateTree::dict()};
                     saved.tree["epoch"] = context_.epoch_;
                     saved.tree["batches"] = context_.batches_;
                     saved.tree["learning_rate"] = context_.learning_rate();
                     return saved;
                   },
               .restore =
                   [this](const CheckpointableState& saved) {
                     const std::int64_t epoch = saved.tree.at("epoch").as_int64();
                     const std::int64_t batches = saved.tree.at("batches").as_int64();
                     context_.set_learning_rate(saved.tree.at("learning_rate").as_double());
                     context_.epoch_ = epoch;
                     context_.batches_ = batches;
                   }});
  }

  void begin_epoch() {
    context_.logs_.clear();
    context_.examples_ = 0;
    call(&Callback::on_epoch_begin);
  }

  bool has_all_steps() const {
    return options_.steps_per_epoch && context_.batches_ >= *options_.steps_per_epoch;
  }

  bool has_next_step() {
    if (has_all_steps()) return false;
    if (steps_.has_next()) return true;
    check_argument(context_.batches_ > 0, "There is no batch to train on.");
    if (options_.steps_per_epoch) {
      base::log_warning(
          "The data ran out in epoch ", context_.epoch_ + 1, " after ", context_.batches_, " of ",
          *options_.steps_per_epoch,
          " steps. The next epoch starts the dataset again; repeat() the dataset for full epochs.");
    }
    return false;
  }

  void run_steps(MonitoredTrainingSession& session) {
    const std::int64_t epoch = context_.epoch_;
    while (!session.should_stop() && !context_.should_stop() && context_.epoch_ == epoch &&
           has_next_step()) {
      call(&Callback::on_train_batch_begin);
      run_round(session);
      call(&Callback::on_train_batch_end);
    }
    if (session.should_stop() || context_.should_stop()) steps_.stop_early();
  }

  /// One step, or several without callbacks and hooks in between.
  void run_round(MonitoredTrainingSession& session) {
    const std::int64_t epoch = context_.epoch_;
    context_.new_batches_ = 0;
    session.run_steps([&] { return make_step(session); },
                      [&](std::int64_t made) {
                        return made < options_.steps_per_execution && context_.epoch_ == epoch &&
                               !has_all_steps() && steps_.has_next();
                      });
  }

  std::optional<StepValues> make_step(const MonitoredTrainingSession& session) {
    auto step = steps_.next(
        {.left = steps_left(), .should_stop = [&session] { return session.should_stop(); }});
    if (!step) return std::nullopt;
    ++context_.batches_;
    ++context_.new_batches_;
    context_.examples_ += step->examples;
    context_.step_values_ = step->values;
    return std::move(step->values);
  }

  std::optional<std::int64_t> steps_left() const {
    if (!options_.steps_per_epoch) return std::nullopt;
    return *options_.steps_per_epoch - context_.batches_;
  }

  /// Returns whether it has ended: the session may be cancelled before it is validated.
  bool end_epoch(const MonitoredTrainingSession& session) {
    steps_.complete_epoch();
    context_.logs_ = trainer_.training_results();
    if (!validate(session)) return false;
    call(&Callback::on_epoch_end);
    history_.add(context_.epoch_, context_.logs_);
    trainer_.reset();
    ++context_.epoch_;
    context_.batches_ = 0;
    if (context_.epoch_ < options_.epochs && (!options_.steps_per_epoch || !steps_.has_next()))
      steps_.start_next_pass();
    return true;
  }

  /// A session that stops with the epoch's last step, and was not cancelled, does not prevent it.
  bool validate(const MonitoredTrainingSession& session) {
    const bool is_due = (context_.epoch_ + 1) % options_.validation_freq == 0;
    if (!options_.validation_data || !is_due) return true;
    call(&Callback::on_test_begin);
    const Logs training = context_.logs_;
    const std::optional<Logs> validation = steps_.validate(
        [&] { return session.should_stop() && options_.session.cancel.is_cancelled(); });
    if (!validation) return false;
    context_.logs_ = *validation;
    call(&Callback::on_test_end);
    context_.logs_ = training;
    for (const auto& [name, value] : *validation) context_.add_log("val_" + name, value);
    return true;
  }

  void call(void (Callback::*function)(FitContext&)) {
    for (const CallbackPtr& callback : callbacks_) (callback.operator->()->*function)(context_);
  }

  internal::Trainer& trainer_;
  internal::FitSteps& steps_;
  const FitOptions& options_;
  std::vector<CallbackPtr> callbacks_;
  FitContext context_;
  History history_;
};

History run_fit(internal::Trainer& trainer, TrainingState& state, internal::FitSteps& steps,
                const FitOptions& options) {
  return FitLoop(trainer, state, steps, options).run();
}

}  // namespace brigade::train

#include "brigade/slim/learning.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/distribute/strategy.h"
#include "brigade/train/hooks/global_step_waiter_hook.h"
#include "brigade/train/hooks/step_timer.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/session/step_runner.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::slim::learning {

namespace {

void check(const TrainOptions& options, const TrainOp& train_op) {
  check_argument(!options.number_of_steps || *options.number_of_steps > 0, "number_of_steps is ",
                 options.number_of_steps.value_or(0),
                 " and must be positive, or unset to train until the data ends.");
  check_argument(options.log_every_n_steps >= 0, "log_every_n_steps is ", options.log_every_n_steps,
                 " and must not be negative; 0 logs nothing.");
  check_argument(options.max_retries >= 0, "max_retries is ", options.max_retries,
                 " and must not be negative.");
  check_argument(!options.number_of_steps || options.train_step_fn || train_op.count_steps(),
                 "number_of_steps would never be reached: the train op does not count the global "
                 "step, and there is no train_step_fn that might.");
  check_argument(options.startup_delay_steps >= 0, "startup_delay_steps is ",
                 options.startup_delay_steps, " and must not be negative.");
  const distribute::ServerLayout& servers = train_op.strategy().servers();
  const bool waits_for_workers = options.sync_optimizer || servers.replicas_to_aggregate > 0;
  check_argument(options.startup_delay_steps == 0 || !waits_for_workers,
                 "startup_delay_steps must be 0 with a sync_optimizer (UpdateMode::kSync): its "
                 "workers wait for each other.");
  check_argument(!options.sync_optimizer || servers.count == 0 || servers.replicas_to_aggregate > 0,
                 "sync_optimizer: the strategy's parameter servers apply each worker's gradients "
                 "when they arrive. Make it with UpdateMode::kSync, or with "
                 "SyncReplicasOptimizer::strategy_options, or leave out sync_optimizer.");
}

/// The state that is saved in checkpoints.
void add_training_state(const TrainOp& train_op, const TrainOptions& options,
                        train::TrainingState& state) {
  const auto scope = train_op.strategy().scope();
  state.add_variables(variables::global_variables());
  state.add_optimizer("optimizer", train_op.optimizer());
  if (train_op.count_steps() || options.train_step_fn)
    state.count_by(train_op.global_step_variable());
  if (train_op.data_position()) state.add_iterator("data", train_op.data_position());
  if (options.add_to_state) options.add_to_state(state);
}

train::SessionOptions session_options(const TrainOptions& options,
                                      const distribute::Strategy& strategy) {
  train::SessionOptions session{.checkpoint_dir = options.logdir,
                                .role = options.role,
                                .scaffold = {.init = options.init_fn,
                                             .saver = options.saver,
                                             .summaries = options.summary_op},
                                .save_checkpoints = {.time = options.save_interval_secs},
                                .save_summaries = {.time = options.save_summaries_secs},
                                .log_step_count = {.time = options.save_summaries_secs},
                                .max_recoveries = options.max_retries,
                                .cancel = options.cancel};
  if (options.logdir.empty()) session.log_step_count = {};
  if (options.number_of_steps) {
    session.hooks.push_back(train::StopAtStepHook{.last_step = options.number_of_steps});
  }
  // Workers with collectives make each step together, so none of them may wait.
  const bool is_worker = options.role == train::SessionRole::kWorker || !strategy.is_chief();
  if (options.startup_delay_steps > 0 && is_worker && !strategy.has_worker_collectives()) {
    session.hooks.push_back(train::GlobalStepWaiterHook{
        .wait_until_step =
            std::min(options.startup_delay_steps,
                     options.number_of_steps.value_or(std::numeric_limits<std::int64_t>::max()))});
  }
  session.hooks.insert(session.hooks.end(), options.hooks.begin(), options.hooks.end());
  return session;
}

void log_step(std::int64_t step, double loss, double seconds) {
  char text[96];
  std::snprintf(text, sizeof(text), ": loss = %.4f (%.3f sec/step)", loss, seconds);
  base::log_info("global step ", step, text);
}

/// One call of `train`.
class Training {
 public:
  Training(const TrainOp& train_op, const TrainOptions& options)
      : train_op_(train_op),
        options_(options),
        clock_(options.clock != nullptr ? *options.clock : system_clock_),
        state_(train_op.strategy()) {
    add_training_state(train_op, options, state_);
  }

  std::optional<double> run() {
    train::MonitoredTrainingSession session(state_, session_options(options_, train_op_.strategy()),
                                            {.files = options_.files, .clock = &clock_});
    while (!session.should_stop()) {
      session.run([&] { return step(session); });
    }
    session.close();
    if (!loss_) return std::nullopt;
    train_op_.check_numerics();
    return loss_->item<double>();
  }

 private:
  std::optional<train::StepValues> step(train::MonitoredTrainingSession& session) {
    const auto begin = clock_.now();
    const TrainStepResult result = attempt_with_retries();
    if (!result.loss) return std::nullopt;
    loss_ = result.loss;
    const std::int64_t step = train_op_.global_step();
    if (is_logged(step)) {
      train_op_.check_numerics();
      const auto value = loss_->item<double>();
      log_step(step, value, std::chrono::duration<double>(clock_.now() - begin).count());
    }
    if (result.should_stop) session.request_stop(train::AtStop::kSave, result.requested_by);
    return train::StepValues{{"loss", *loss_}};
  }

  /// Other workers' steps may count, too, so that this one's are not consecutive.
  bool is_logged(std::int64_t step) {
    const std::int64_t every = options_.log_every_n_steps;
    if (every == 0) return false;
    const std::optional<std::int64_t> last = std::exchange(last_step_, step);
    return step % every == 0 || (last && step / every > *last / every);
  }

  // A session with checkpoints retries from the last one. A push to parameter servers that failed
  // may have been applied, or be completed by the next: the same step would push it again.
  TrainStepResult attempt_with_retries() const {
    const bool is_saved = !options_.logdir.empty() && options_.save_interval_secs;
    const auto attempt = [&] {
      return options_.train_step_fn ? options_.train_step_fn(train_op_) : train_step(train_op_);
    };
    if (is_saved || train_op_.strategy().global_step()) return attempt();
    train::StepRunner runner({.max_retries = options_.max_retries, .cancel = options_.cancel});
    return runner.run(attempt);
  }

  const base::SystemClock system_clock_;
  const TrainOp& train_op_;
  const TrainOptions& options_;
  const base::Clock& clock_;
  train::TrainingState state_;
  std::optional<at::Tensor> loss_;
  std::optional<std::int64_t> last_step_;
};

}  // namespace

TrainStepResult train_step(const TrainOp& train_op) {
  return {.loss = train_op()};
}

std::optional<double> train(const TrainOp& train_op, const TrainOptions& options) {
  check(options, train_op);
  return Training(train_op, options).run();
}

}  // namespace brigade::slim::learning

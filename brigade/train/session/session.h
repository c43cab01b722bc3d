#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/saver_options.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/io/file_system.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"
#include "brigade/train/hooks/summary_hooks.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_runner.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

class CheckpointSavingHook;

/// The chief saves, logs and writes summaries; there is one per job. Workers only train. Under a
/// strategy with several workers, the strategy's chief is the chief, whatever the options say.
enum class SessionRole { kChief, kWorker };

/// Where a training starts.
enum class Resume {
  /// From the newest complete checkpoint in `checkpoint_dir`, or from the start if there is none.
  /// If all checkpoints there are broken, the session throws kDataLoss. If some are broken, a
  /// session that saves renames them (`ckpt-120.broken`).
  kAuto,
  kNever,  ///< from the start; existing checkpoints stay until newer ones replace them
};

/// The parts of a session that depend on the model (TensorFlow: tf.train.Scaffold). All are
/// optional.
struct Scaffold {
  /// Sets the initial values. Called only if no checkpoint was restored; to start from pretrained
  /// weights, call `checkpoint::restore_variables` here. Variables already have the values of their
  /// initializers.
  std::function<void(TrainingState&)> init = {};
  /// Always called, after `init` or the restore: for state that is in no checkpoint.
  std::function<void(TrainingState&)> local_init = {};
  /// Returns why the training cannot start yet, or nothing if it can. Called at the start, before
  /// `local_init`: a worker calls it until the training can start; for a chief a reason is an
  /// error.
  std::function<std::optional<std::string>()> not_ready = {};
  /// How the session saves; its directory is set to the session's `checkpoint_dir`.
  checkpoint::SaverOptions saver = {};
  /// Writes summaries as often as `SessionOptions::save_summaries` says. Empty: every scalar value
  /// of the step is written.
  SummaryFunction summaries = {};
};

/// The defaults are TensorFlow's, where TensorFlow has the option.
struct SessionOptions {
  /// The directory of checkpoints. Empty: nothing is saved, and the session does not recover from
  /// errors.
  io::Path checkpoint_dir = {};
  SessionRole role = SessionRole::kChief;
  Scaffold scaffold = {};
  /// Called after the built-in hooks, in this order.
  std::vector<HookPtr> hooks = {};
  /// Hooks of the chief only; called before all others.
  std::vector<HookPtr> chief_only_hooks = {};

  /// How often to save; a checkpoint is also saved after the start and at the end. `Every{}`:
  /// never.
  Every save_checkpoints = {.time = std::chrono::seconds(600)};
  /// How often to write summaries. Needs `summary_dir` or `checkpoint_dir`.
  Every save_summaries = {.steps = 100};
  /// How often to write the log line and the summary `global_step/sec`.
  Every log_step_count = {.steps = 100};
  /// The directory of event files. Empty: `checkpoint_dir`.
  io::Path summary_dir = {};

  Resume resume = Resume::kAuto;
  /// Starts from this checkpoint, or from the newest complete one in this directory, whatever
  /// `checkpoint_dir` contains. Throws kNotFound if there is none.
  std::optional<io::Path> resume_from = std::nullopt;
  TrainingRestoreOptions restore = {};

  /// How long a worker waits for `Scaffold::not_ready` to return nothing.
  std::chrono::milliseconds max_wait = std::chrono::seconds(7200);
  /// How often it calls `Scaffold::not_ready`.
  std::chrono::milliseconds ready_poll = std::chrono::milliseconds(500);
  /// The maximum number of consecutive recoveries without progress. A step that failed with a
  /// retryable error (`is_retryable`) is retried from the last checkpoint. TensorFlow has no limit.
  int max_recoveries = 3;
  /// Cancelling has the effect of `request_stop()`; waits end immediately.
  concurrency::CancelToken cancel = {};
};

/// Runs a training step by step, and does what every training needs: resumes from the newest
/// complete checkpoint, saves, logs, writes summaries, stops, and recovers from errors (TensorFlow:
/// tf.train.MonitoredTrainingSession).
///
///   auto model = strategy.create<models::MnistCnn>();
///   auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 1e-3});
///   auto batches = strategy.distribute(dataset).iterator();
///   MonitoredTrainingSession session(strategy, {.checkpoint_dir = dir,
///                                               .hooks = {StopAtStepHook{.last_step = 10'000}}});
///   while (!session.should_stop()) {
///     session.run(batches, [&](const input::LabeledBatch& batch) {
///       const auto loss = cross_entropy(model(batch.features), batch.labels);
///       return adam.minimize(loss);
///     });
///   }
///   session.close();
///
/// The session saves and restores what was created in the strategy before it: models, optimizers,
/// metrics and iterators (`TrainingState::add_created`). To name them, to save something else, or
/// to give an optimizer a schedule, add them to a `TrainingState` and pass that.
///
/// A program that is killed at any moment and started again ends with the same weights as without
/// the interruption (see TrainingState), provided that each step reads its data from iterators of
/// the state.
///
/// The order of hooks of a chief: chief_only_hooks, StepCounterHook, SummarySaverHook,
/// CheckpointSaverHook, hooks. A worker has only hooks. CheckpointSaverHook's `after_run` is called
/// after that of all other hooks, so that a checkpoint contains their state after the step, and no
/// checkpoint is written of a step for which a hook threw.
///
/// Differences from TensorFlow: a training that is resumed at its last step makes no further step;
/// `end` of every hook is called after an error, too; `Every` may have both a time and steps; the
/// number of recoveries is limited.
///
/// Under a strategy with several workers, each worker creates a session with the same options,
/// except for hooks, and all make the same calls. All start from the checkpoint that the chief
/// chooses, in a directory that all can read, and stop at the same step. A step has no call of the
/// workers for that: they learn of requests in the calls that the step makes anyway. The chief's
/// clock decides when something is due. A lost worker ends the session; the job must be restarted
/// (`brigade launch --max-restarts`).
///
/// Workers without collectives (parameter servers) create sessions with the same options, too, and
/// agree on nothing else. The chief restores, initializes and saves; the others start with what it
/// has stored, and read no checkpoint. The global step is the job's: a session ends at a step that
/// other workers may have made. The session does not recover from errors, because a restore would
/// undo the other workers' updates.
///
/// Thread-safety: `request_stop` of kThisWorker and `should_stop` may be called from any thread,
/// everything else from one thread, outside of replicas.
class MonitoredTrainingSession {
 public:
  /// One step: returns its values, or nothing at the end of the data. The session counts the steps.
  using StepFunction = std::function<std::optional<StepValues>()>;

  /// Restores or initializes the state, and calls the hooks up to `after_create_session`; if that
  /// fails, the hooks are ended and the error is thrown. Broken checkpoints are skipped with a
  /// warning (`passed_over`). Throws kInvalidArgument for invalid options, kDeadlineExceeded, with
  /// the reason from `not_ready`, if a worker waited too long, and as `TrainingState::restore`.
  /// `state` must outlive the session.
  explicit MonitoredTrainingSession(TrainingState& state, SessionOptions options = {},
                                    SessionEnvironment environment = {});
  /// The same, with a new state: everything that was created in the strategy and still
  /// exists.
  explicit MonitoredTrainingSession(distribute::Strategy& strategy, SessionOptions options = {},
                                    SessionEnvironment environment = {});
  /// Closes the session; errors are logged: call `close` to get them. During stack unwinding the
  /// hooks end as after a failed step: nothing is saved.
  ~MonitoredTrainingSession();
  MonitoredTrainingSession(const MonitoredTrainingSession&) = delete;
  MonitoredTrainingSession& operator=(const MonitoredTrainingSession&) = delete;

  bool should_stop() const { return context_.should_stop(); }

  /// Makes one step, with the hooks around it, and returns its values; returns nothing at the end
  /// of the data, which stops the session. After a retryable error (`is_retryable`), the state is
  /// restored from the last checkpoint and the step is retried, so the returned values may be of an
  /// earlier step. Any other error ends the hooks, closes the session and is rethrown. Throws
  /// kFailedPrecondition if `should_stop` is true.
  std::optional<StepValues> run(const StepFunction& step);
  /// Makes several steps with one round of hooks around them; hooks get the values of the last
  /// step. Steps follow one another until the session should stop, a hook must see the step
  /// (`SessionRunHook::must_see`), or `more` returns false for the number of steps made. `more`
  /// must be equal in all workers, which stop between rounds only. A retryable error repeats the
  /// round; otherwise as `run`.
  std::optional<StepValues> run_steps(const StepFunction& step,
                                      const std::function<bool(std::int64_t made)>& more);
  /// The same as `run(step)`, for a step on the next batch of `batches`: calls `function(batch)` in
  /// each replica with its part of the batch, as `Strategy::run`. It returns what
  /// `Optimizer::minimize` returned, whose `Strategy::reduce_loss` is the step's value "loss", or a
  /// tensor, of which that is the mean over all examples, for one more call of all workers.
  template <class Iterator, class Function, class Strategy = distribute::Strategy>
  std::optional<StepValues> run(Iterator& batches, const Function& function) {
    return run([&]() -> std::optional<StepValues> {
      const auto batch = batches.next();
      if (!batch) return std::nullopt;
      Strategy& strategy = state().strategy();
      using Losses = decltype(strategy.run(function, *batch));
      static_assert(!std::is_void_v<Losses>,
                    "The function given to MonitoredTrainingSession::run must return the "
                    "step's loss: what Optimizer::minimize returns, or a tensor, loss.detach().");
      const Losses losses = strategy.run(function, *batch);
      if constexpr (requires { strategy.reduce_loss(losses); }) {
        return StepValues{{"loss", strategy.reduce_loss(losses)}};
      } else {
        return StepValues{{"loss", strategy.reduce_mean_over_examples(losses)}};
      }
    });
  }

  /// Ends the training after the current step; `at_stop` says whether `close` saves the state.
  /// Programs call it on SIGTERM. Several workers stop after the same step, which may be one later
  /// (`SessionContext::request_stop`).
  void request_stop(AtStop at_stop = AtStop::kSave, RequestedBy by = RequestedBy::kThisWorker) {
    context_.request_stop(at_stop, by);
  }

  /// Ends the hooks, which saves and waits for the save, and closes the files. Throws the first
  /// error of a hook after all have ended. A second call does nothing.
  void close();

  /// The checkpoint from which this run was restored, or nothing if it started from the beginning.
  const std::optional<TrainingRestoreReport>& restored() const { return restored_; }
  /// The broken checkpoints found at the start or in a recovery.
  const std::vector<checkpoint::BrokenCheckpoint>& passed_over() const { return passed_over_; }
  /// For measuring parts of a step, such as reading the next batch; the profiler shows them.
  Spans& spans() { return context_.spans(); }
  SessionContext& context() { return context_; }
  TrainingState& state() const { return context_.state(); }

 private:
  MonitoredTrainingSession(std::shared_ptr<TrainingState> state, SessionOptions options,
                           SessionEnvironment environment);
  void make_hooks();
  void start();
  void wait_until_ready();
  void check_ready();
  void initialize();
  bool is_initialized_by_chief() const;
  void follow_chief();
  checkpoint::Checkpoint open_checkpoint(const io::Path& path);
  std::optional<checkpoint::Checkpoint> find_latest(const io::Path& path);
  std::optional<checkpoint::Checkpoint> find_own_latest(const io::Path& path);
  bool restore_latest();
  void restore(const checkpoint::Checkpoint& checkpoint);
  void create_session();
  std::optional<StepValues> try_run(const StepFunction& step,
                                    const std::function<bool(std::int64_t made)>& more);
  std::optional<StepValues> make_steps(const StepFunction& step,
                                       const std::function<bool(std::int64_t made)>& more);
  /// Calls `call(hook)` for each hook.
  template <class Call>
  void for_each_hook(const Call& call);
  std::size_t hooks_of_chief_alone() const;
  bool can_recover() const;
  bool recover();
  void fail(const std::exception_ptr& error);

  const base::SystemClock system_clock_;
  const std::shared_ptr<TrainingState> state_;
  SessionOptions options_;
  std::unique_ptr<summary::SummaryWriter> summaries_;
  SessionContext context_;
  std::vector<HookPtr> hooks_;
  std::shared_ptr<CheckpointSavingHook> saver_;  // among hooks_; null without checkpoints
  std::optional<TrainingRestoreReport> restored_;
  std::vector<checkpoint::BrokenCheckpoint> passed_over_;
  concurrency::CancelRegistration on_cancel_;
  StepRunner runner_;
  std::int64_t furthest_step_ = 0;  // reached before the last recovery
  bool has_made_steps_ = false;
  const int exceptions_at_start_;
  std::size_t num_begun_hooks_ = 0;  // number of hooks whose `begin` was called
  bool is_closed_ = false;
};

}  // namespace brigade::train

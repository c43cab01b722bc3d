#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/io/file_system.h"
#include "brigade/train/hooks/every.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/session/scaffold.h"
#include "brigade/train/session/session_context.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

class CheckpointSaverHook;

/// Who saves, logs and writes summaries: one chief a job. Workers only train. Under a strategy of
/// several workers only its chief is one, whatever the options say.
enum class SessionRole { kChief, kWorker };

/// Where a training begins.
enum class Resume {
  /// From the newest whole checkpoint of `checkpoint_dir`, or from the start if it holds none. If
  /// all
  /// that it holds are broken, the session throws kDataLoss. Broken ones beside a whole one get
  /// other names (`ckpt-120.broken`) where the session saves.
  kAuto,
  kNever,  ///< from the start; checkpoints that are there stay until newer ones push them out
};

/// Defaults are TensorFlow's, where it has them.
struct SessionOptions {
  /// Where checkpoints lie. Empty: nothing is saved, and no error is recovered from.
  io::Path checkpoint_dir = {};
  SessionRole role = SessionRole::kChief;
  Scaffold scaffold = {};
  /// Called behind the built-in ones, in this order.
  std::vector<std::shared_ptr<SessionRunHook>> hooks = {};
  /// The chief's alone; called before all others.
  std::vector<std::shared_ptr<SessionRunHook>> chief_only_hooks = {};

  /// Also saved behind the start and at the end. `Every{}`: not at all.
  Every save_checkpoints = {.time = std::chrono::seconds(600)};
  /// Needs `summary_dir` or `checkpoint_dir`.
  Every save_summaries = {.steps = 100};
  /// The log line and summary `global_step/sec`.
  Every log_step_count = {.steps = 100};
  /// Where event files go. Empty: to `checkpoint_dir`.
  io::Path summary_dir = {};

  Resume resume = Resume::kAuto;
  /// Begins with this checkpoint, or the newest whole one of this directory, whatever
  /// `checkpoint_dir` holds. Throws kNotFound if there is none.
  std::optional<io::Path> resume_from = std::nullopt;
  TrainingRestoreOptions restore = {};

  /// How long a worker waits until `Scaffold::not_ready` says nothing.
  std::chrono::milliseconds max_wait = std::chrono::seconds(7200);
  /// How often it asks.
  std::chrono::milliseconds ready_poll = std::chrono::milliseconds(500);
  /// How often in a row a step that failed with kAborted or kUnavailable is tried again from the
  /// last checkpoint, without getting further than before. TensorFlow tries for ever.
  int max_recoveries = 3;
  /// Cancelled: as `request_stop()`; waits end at once.
  concurrency::CancelToken cancel = {};
};

/// Runs a training step by step, and does what every training needs around it: goes on from the
/// newest whole checkpoint, saves, logs, writes summaries, stops, recovers (TensorFlow:
/// tf.train.MonitoredTrainingSession).
///
///   MonitoredTrainingSession session(state, {.checkpoint_dir = dir,
///       .hooks = {std::make_shared<StopAtStepHook>(StopAtStep{.last_step = 10'000})}});
///   while (!session.should_stop()) {
///     session.run([&]() -> std::optional<StepValues> {
///       const auto batch = batches.next();
///       if (!batch) return std::nullopt;  // the data ends: the session stops
///       const auto losses = strategy.run(step, *batch);
///       return StepValues{{"loss", strategy.reduce_mean_over_examples(losses)}};
///     });
///   }
///   session.close();
///
/// Killed at any moment and started again, the program ends with the weights it would have had (see
/// TrainingState), as long as each step draws its data from iterators that the state knows.
///
/// Hooks of a chief, in order: chief_only_hooks, StepCounterHook, SummarySaverHook,
/// CheckpointSaverHook, hooks. Of a worker: hooks. The saver's `after_run` alone comes behind all
/// others', so that a checkpoint holds what they remember of its step and none is written of a step
/// that they refused.
///
/// Differs from TensorFlow: a training that is resumed at its last step makes no further one;
/// `end` of every hook is called also after an error; times and steps may both be set; recovery is
/// bounded.
///
/// Under a strategy of several workers each of them makes a session, with the same options but for
/// hooks of its own, and all make the same calls. They start from the chief's choice of checkpoint,
/// in a directory that all see, and stop at the same step. Clocks are the chief's. A lost worker
/// ends the session: the job is started again (`brigade launch --max-restarts`).
///
/// Thread-safety: `request_stop` and `should_stop` from any thread, the rest from one, outside of
/// replicas.
class MonitoredTrainingSession {
 public:
  /// One step: what it computed, or nothing at the end of the data. The session counts the step.
  using StepFunction = std::function<std::optional<StepValues>()>;

  /// Restores or initializes, and calls the hooks up to `after_create_session`; if that fails,
  /// they are ended and the error is thrown. Broken checkpoints are passed over with a warning
  /// (`passed_over`). Throws kInvalidArgument for options without meaning, kDeadlineExceeded if a
  /// worker waited too long (with what was missing), and as `TrainingState::restore`. `state` must
  /// outlive the session.
  explicit MonitoredTrainingSession(TrainingState& state, SessionOptions options = {},
                                    SessionEnvironment environment = {});
  /// Closes; an error is logged: call `close` to see it. If an error of the program passes, hooks
  /// end as after an error of a step: nothing is saved.
  ~MonitoredTrainingSession();
  MonitoredTrainingSession(const MonitoredTrainingSession&) = delete;
  MonitoredTrainingSession& operator=(const MonitoredTrainingSession&) = delete;

  bool should_stop() const;

  /// Makes one step, with the hooks around it, and returns its values; nothing if the data ended,
  /// which stops the session. After kAborted or kUnavailable the state goes back to the last
  /// checkpoint and the step is tried again, so what comes back may be an earlier step than the one
  /// asked for. Any other error ends the hooks, closes the session and is thrown on. Throws
  /// kFailedPrecondition after should_stop.
  std::optional<StepValues> run(const StepFunction& step);

  /// The step under way is finished, then nothing more is begun; `close` saves the state, or does
  /// not. What a program calls on SIGTERM.
  void request_stop(AtStop at_stop = AtStop::kSave);

  /// Ends the hooks (which saves and waits for the save) and closes the files. Throws the first
  /// error of them, after all have ended. A second call does nothing.
  void close();

  /// Where this run of the program began, or nothing if from the start.
  const std::optional<TrainingRestoreReport>& restored() const { return restored_; }
  /// Checkpoints found broken at the start or in a recovery.
  const std::vector<checkpoint::BrokenCheckpoint>& passed_over() const { return passed_over_; }
  /// For measuring parts of a step, such as reading the next batch: the profiler shows them.
  Spans& spans() { return context_.spans(); }
  SessionContext& context() { return context_; }

 private:
  void make_hooks();
  void start();
  void wait_until_ready();
  void check_ready();
  void initialize();
  checkpoint::Checkpoint open_checkpoint(const io::Path& path);
  std::optional<checkpoint::Checkpoint> find_latest(const io::Path& path);
  std::optional<checkpoint::Checkpoint> find_own_latest(const io::Path& path);
  bool restore_latest();
  void restore(const checkpoint::Checkpoint& checkpoint);
  void create_session();
  std::optional<StepValues> try_run(const StepFunction& step);
  bool recover(const std::exception_ptr& error);
  void fail(const std::exception_ptr& error);

  const base::SystemClock system_clock_;
  SessionOptions options_;
  std::unique_ptr<summary::SummaryWriter> summaries_;
  SessionContext context_;
  std::vector<std::shared_ptr<SessionRunHook>> hooks_;
  std::shared_ptr<CheckpointSaverHook> saver_;  // among hooks_; null without checkpoints
  std::optional<TrainingRestoreReport> restored_;
  std::vector<checkpoint::BrokenCheckpoint> passed_over_;
  concurrency::CancelRegistration on_cancel_;
  std::int64_t furthest_step_ = 0;  // reached before the last recovery
  int recoveries_in_a_row_ = 0;
  const int exceptions_at_start_;
  std::size_t begun_ = 0;  // hooks whose `begin` was called
  bool is_closed_ = false;
};

}  // namespace brigade::train

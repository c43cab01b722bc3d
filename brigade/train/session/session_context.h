#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/comm/piggyback.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/io/file_system.h"
#include "brigade/train/graph/spans.h"

namespace brigade::summary {
class SummaryWriter;
}  // namespace brigade::summary

namespace brigade::train {

class TrainingState;

/// The file system, clock and waiting function of a session; tests replace them.
struct SessionEnvironment {
  std::shared_ptr<io::FileSystem> files = io::posix_file_system();
  /// Must outlive the session. Null: the system clock.
  const base::Clock* clock = nullptr;
  /// Waits for this long, or until the token is cancelled. Empty:
  /// `concurrency::interruptible_wait`.
  std::function<void(std::chrono::milliseconds, const concurrency::CancelToken&)> wait = {};
};

/// Replaces what is null or empty by its default; `system_clock` must outlive the result. Throws
/// kInvalidArgument without files.
SessionEnvironment completed(SessionEnvironment environment, const base::Clock& system_clock);

/// What to do with the state when a training is stopped on request.
enum class AtStop {
  kSave,     ///< save it, as at the normal end
  kDiscard,  ///< do not save it: the last checkpoint stays the newest
};

/// Who requests that the training of several workers stops. Matters only if they have collectives:
/// other workers stop alone, at once.
enum class RequestedBy {
  /// This worker, perhaps alone: because of a signal, a clock, a file, a value of its own. The
  /// others learn of it in the calls of a step, so at most one more step begins after the request.
  kThisWorker,
  /// Every worker, after the same step: because of the global step, or a value that is equal in all
  /// (a loss over all replicas). No further step begins. If a worker claims it and another does not
  /// request a stop after that step, both throw a comm::StepMismatch that names them, and the
  /// session ends. Requests of the chief's `chief_only_hooks` are the chief's alone.
  kEveryWorker,
};

/// The interface of a session for its hooks (TensorFlow: SessionRunContext).
///
/// Thread-safety: `request_stop` of kThisWorker, `should_stop` and `spans` may be called from any
/// thread; everything else from the session's thread.
class SessionContext {
 public:
  /// `summaries` may be null. The arguments must outlive this object.
  SessionContext(TrainingState& state, SessionEnvironment environment,
                 summary::SummaryWriter* summaries = nullptr);

  TrainingState& state() const { return state_; }
  std::int64_t global_step() const;

  /// Requests that no further step begins. The first call decides whether the state is saved; of
  /// several workers' requests kDiscard counts more. Workers with collectives all stop after the
  /// same step: they act before the next step on what each had requested when they made the last
  /// call of the step before. So a worker's own request that comes later, such as in `after_run`,
  /// takes effect one step later (RequestedBy); not after a save, nor at the end of an epoch of
  /// `Model::fit`. Workers without collectives stop alone.
  void request_stop(AtStop at_stop = AtStop::kSave, RequestedBy by = RequestedBy::kThisWorker);
  /// Before the next step the workers agree on stopping in a call of its own, as before the first:
  /// no further step begins after a request of one of them that comes until then. For the ends of
  /// long or rare pieces of work between two steps, because it costs a call. Every worker with
  /// collectives must call it between the same steps.
  void agree_before_next_step() { must_ask_ = true; }
  bool should_stop() const { return agreed_stop_ != Stop::kNo; }
  /// Whether the training ends without its state being saved, as far as all workers know without a
  /// call: nothing is saved any more then. Equal in all of them.
  bool discards() const;
  /// Returns the chief's value of `is_due` in every worker; a collective, if workers share any.
  bool broadcast_from_chief(bool is_due) const;

  /// Whether something is due after this step by a clock, such as a save or a report.
  using Timer = std::function<bool(std::int64_t step)>;
  /// Adds a timer, in which the chief's clock decides for all workers, and returns its number. All
  /// workers add the same ones in the same order, before the first step. The chief asks `is_due`
  /// when a step's calls begin, in their threads, so it must neither wait nor throw, and what it
  /// reads may change between steps only. It must outlive the session.
  std::size_t add_timer(Timer is_due);
  /// Whether this timer of the chief is due after the step that was made last. All workers know it
  /// from the step's last call; if it made none, this is a collective. Without collectives this
  /// worker's own timer decides.
  bool is_due(std::size_t timer) const;
  AtStop at_stop() const {
    return agreed_stop_ == Stop::kDiscard ? AtStop::kDiscard : AtStop::kSave;
  }

  /// The checkpoint from which the state was last restored, or nothing.
  const std::optional<io::Path>& restored_from() const { return restored_from_; }
  /// Its global step. That of a job in progress on parameter servers may be later.
  std::optional<std::int64_t> restored_step() const { return restored_step_; }
  /// Whether the session ends because of an error. The state may then be that of an unfinished
  /// step, and must not be saved.
  bool has_failed() const { return error_ != nullptr; }
  /// The first error, or null.
  const std::exception_ptr& error() const { return error_; }
  /// How often the session has restored a checkpoint after an error.
  int recoveries() const { return recoveries_; }

  const std::shared_ptr<io::FileSystem>& files() const { return environment_.files; }
  const base::Clock& clock() const { return *environment_.clock; }
  void wait(std::chrono::milliseconds time) const { environment_.wait(time, cancel_); }
  /// The writer of summaries, or null if the session writes none.
  summary::SummaryWriter* summaries() const { return summaries_; }
  Spans& spans() { return spans_; }
  const concurrency::CancelToken& cancel() const { return cancel_; }

 private:
  friend class MonitoredTrainingSession;
  enum class Stop { kNo, kSave, kDiscard };
  const base::SystemClock system_clock_;
  TrainingState& state_;
  SessionEnvironment environment_;
  summary::SummaryWriter* summaries_;
  Spans spans_;
  concurrency::CancelToken cancel_;
  /// Makes the requests of all workers effective, at the same step in all of them: those that are
  /// known already, or else those of a call of all workers.
  void agree_on_stop();
  /// The same, without a call.
  void use_known_requests();
  /// The maximum of the requests that all workers know of one another.
  Stop known_request() const;
  /// From now on calls of the workers carry this worker's request and timers.
  void begin_step();
  void forget_carried();
  std::int64_t due_timers(std::int64_t step) const;
  std::atomic<Stop> requested_stop_{Stop::kNo};
  std::atomic<Stop> agreed_stop_{Stop::kNo};  // without collectives, the request itself
  /// The workers' requests in the calls since `begin_step`; null: they are not known.
  std::shared_ptr<const comm::PiggybackNumber> carried_;
  bool must_ask_ = false;  // before the next step, whatever is known
  bool is_in_chief_only_hook_ = false;
  std::vector<Timer> timers_;
  /// What is due in the calls since `begin_step`, a bit for each timer, in all workers.
  std::shared_ptr<const comm::PiggybackNumber> due_;
  std::exception_ptr error_;
  std::optional<io::Path> restored_from_;
  std::optional<std::int64_t> restored_step_;
  int recoveries_ = 0;
};

}  // namespace brigade::train

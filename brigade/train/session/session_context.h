#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "brigade/base/clock.h"
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

/// The interface of a session for its hooks (TensorFlow: SessionRunContext).
///
/// Thread-safety: `request_stop`, `should_stop` and `spans` may be called from any thread;
/// everything else from the session's thread.
class SessionContext {
 public:
  /// `summaries` may be null. The arguments must outlive this object.
  SessionContext(TrainingState& state, SessionEnvironment environment,
                 summary::SummaryWriter* summaries = nullptr);

  TrainingState& state() const { return state_; }
  std::int64_t global_step() const;

  /// Requests that no further step begins. The first call decides whether the state is saved. With
  /// several workers, all act on the request at the beginning of the next step, so that all stop at
  /// the same step; workers without collectives stop alone.
  void request_stop(AtStop at_stop = AtStop::kSave);
  bool should_stop() const { return agreed_stop_ != Stop::kNo; }
  /// Returns the chief's value of `is_due` in every worker; a collective, if workers share any.
  bool broadcast_from_chief(bool is_due) const;
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
  /// Makes the requests of all workers effective, at the same step in all of them.
  void agree_on_stop();
  std::atomic<Stop> requested_stop_{Stop::kNo};
  std::atomic<Stop> agreed_stop_{Stop::kNo};  // without collectives, the request itself
  std::exception_ptr error_;
  std::optional<io::Path> restored_from_;
  std::optional<std::int64_t> restored_step_;
  int recoveries_ = 0;
};

}  // namespace brigade::train

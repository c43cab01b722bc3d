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
#include "brigade/summary/summary_writer.h"
#include "brigade/train/graph/spans.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// What a session sees of the world outside, so that tests can put something else in its place.
struct SessionEnvironment {
  std::shared_ptr<io::FileSystem> files = io::posix_file_system();
  /// Must outlive the session. Null: the machine's.
  const base::Clock* clock = nullptr;
  /// Waits for this long, or until the token is cancelled. Empty: does so.
  std::function<void(std::chrono::milliseconds, const concurrency::CancelToken&)> wait = {};
};

/// What is done with the state when a training is asked to stop.
enum class AtStop {
  kSave,     ///< it is saved as at any end
  kDiscard,  ///< it is not: the last checkpoint stays the newest
};

/// What hooks see of the session that calls them (TensorFlow: SessionRunContext).
///
/// Thread-safety: `request_stop`, `should_stop` and `spans` from any thread; the rest from the
/// session's.
class SessionContext {
 public:
  /// `summaries` may be null. What is passed must outlive this.
  SessionContext(TrainingState& state, SessionEnvironment environment,
                 summary::SummaryWriter* summaries = nullptr);

  TrainingState& state() const { return state_; }
  std::int64_t global_step() const { return state_.global_step(); }

  /// No further step is begun. The first call decides what is saved. With several workers it is a
  /// wish, that all of them follow at the beginning of the next step: so all stop at the same one.
  void request_stop(AtStop at_stop = AtStop::kSave);
  bool should_stop() const { return agreed_stop_ != Stop::kNo; }
  /// The chief's answer to a question of the clock, in every worker; a collective of theirs.
  bool broadcast_from_chief(bool is_due) const { return state_.strategy().broadcast_from_chief(std::int64_t{is_due}) != 0; }
  AtStop at_stop() const;

  /// The checkpoint from which the state was restored last, or nothing.
  const std::optional<io::Path>& restored_from() const { return restored_from_; }
  /// Whether the session ends because of an error: then the state may be half of a step's, and must
  /// not be saved.
  bool has_failed() const { return error_ != nullptr; }
  /// The first error, or null.
  const std::exception_ptr& error() const { return error_; }
  /// How often the session has gone back to a checkpoint after an error.
  int recoveries() const { return recoveries_; }

  const std::shared_ptr<io::FileSystem>& files() const { return environment_.files; }
  const base::Clock& clock() const { return *environment_.clock; }
  void wait(std::chrono::milliseconds time) const;
  /// Where summaries go, or null if there is no such place.
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
  /// What was asked for becomes what is done, at the same step in all workers.
  void agree_on_stop();
  std::atomic<Stop> requested_stop_{Stop::kNo};
  std::atomic<Stop> agreed_stop_{Stop::kNo};  // with one worker, the wish
  std::exception_ptr error_;
  std::optional<io::Path> restored_from_;
  int recoveries_ = 0;
};

}  // namespace brigade::train

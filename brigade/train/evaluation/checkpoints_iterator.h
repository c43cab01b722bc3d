#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/io/file_system.h"
#include "brigade/train/session/session_context.h"

namespace brigade::train {

struct WaitForCheckpoint {
  /// Counted from the call. Unset: until `cancel`.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// How often the directory is looked at. TensorFlow: seconds_to_sleep.
  std::chrono::milliseconds poll = std::chrono::seconds(1);
  /// Ends the wait at once.
  concurrency::CancelToken cancel = {};
  SessionEnvironment environment = {};
};

/// Waits until `directory` holds a whole checkpoint that is newer than `last` (without `last`:
/// any), and returns the newest; nothing when the time is up or the wait is cancelled. The
/// directory need not exist yet. A broken newest checkpoint is passed over, with a warning.
/// TensorFlow: evaluation.wait_for_new_checkpoint.
///
/// Throws kInvalidArgument for an empty directory, a negative timeout and a poll that is not above
/// 0, and as `io::FileSystem` does.
std::optional<checkpoint::Checkpoint> wait_for_new_checkpoint(
    const io::Path& directory, const std::optional<checkpoint::Checkpoint>& last = std::nullopt,
    const WaitForCheckpoint& options = {});

/// What becomes of a walk for which no checkpoint came in time.
enum class AfterTimeout { kEnd, kKeepWaiting };

struct CheckpointsIteratorOptions {
  /// From one checkpoint to the next: those that come in between are skipped, the newest excepted.
  std::chrono::milliseconds min_interval{0};
  /// How long each checkpoint is waited for. Unset: until `cancel`.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// Asked when the time is up: whether the training has ended, say. Empty: the walk ends.
  std::function<AfterTimeout()> timeout_fn = {};
  std::chrono::milliseconds poll = std::chrono::seconds(1);
  concurrency::CancelToken cancel = {};
  SessionEnvironment environment = {};
};

/// A walk over the checkpoints that a training writes, while it writes them, for whoever evaluates
/// them: each at most once, always the newest, so that a slow evaluation skips some and stays
/// close. TensorFlow: tf.train.checkpoints_iterator.
///
///   CheckpointsIterator checkpoints("/tmp/run", {.timeout = std::chrono::minutes(10)});
///   while (const auto checkpoint = checkpoints.next()) { ... }
///
/// A checkpoint counts as new if it was saved after the last one, whatever its step, or if the last
/// one is gone. Broken ones are passed over, with one warning each.
///
/// Thread-safety: one thread; the training may be in another thread or process.
class CheckpointsIterator {
 public:
  /// Throws kInvalidArgument as `wait_for_new_checkpoint`, and for a negative `min_interval`.
  explicit CheckpointsIterator(io::Path directory, CheckpointsIteratorOptions options = {});
  CheckpointsIterator(const CheckpointsIterator&) = delete;
  CheckpointsIterator& operator=(const CheckpointsIterator&) = delete;

  /// The next one; nothing at the end: the time is up, or the walk was cancelled.
  std::optional<checkpoint::Checkpoint> next();

  /// What was found broken so far.
  const std::vector<checkpoint::BrokenCheckpoint>& passed_over() const { return passed_over_; }

 private:
  friend std::optional<checkpoint::Checkpoint> wait_for_new_checkpoint(
      const io::Path&, const std::optional<checkpoint::Checkpoint>&, const WaitForCheckpoint&);
  using TimePoint = std::chrono::steady_clock::time_point;
  void wait_until(TimePoint time) const;
  bool wait_for_new();
  std::optional<checkpoint::Checkpoint> find_new();
  bool is_new(const checkpoint::Checkpoint& found) const;
  void report(checkpoint::BrokenCheckpoint broken);

  const base::SystemClock system_clock_;
  const io::Path directory_;
  CheckpointsIteratorOptions options_;
  std::optional<checkpoint::Checkpoint> last_;
  std::optional<TimePoint> last_time_;
  /// The newest candidate that was read through: reading all its bytes at each look would cost.
  std::optional<std::pair<io::Path, std::int64_t>> examined_;
  std::set<io::Path> reported_;
  std::vector<checkpoint::BrokenCheckpoint> passed_over_;
};

}  // namespace brigade::train

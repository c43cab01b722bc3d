#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/io/file_system.h"
#include "brigade/train/session/session_context.h"

namespace brigade::train {

/// What an iterator does if there was no new checkpoint in time.
enum class AfterTimeout { kEnd, kKeepWaiting };

/// Options of CheckpointsIterator: how long it waits for the next checkpoint.
struct CheckpointsIteratorOptions {
  /// The minimum time from one checkpoint to the next; checkpoints that are saved in between are
  /// skipped, except for the newest.
  std::chrono::milliseconds min_interval{0};
  /// How long to wait for each checkpoint, from the call. Unset: no timeout.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// Called after a timeout: may check whether the training has ended. Empty: the iterator ends.
  std::function<AfterTimeout()> timeout_fn = {};
  /// How often to look at the directory. TensorFlow: seconds_to_sleep.
  std::chrono::milliseconds poll = std::chrono::seconds(1);
  /// Ends the wait immediately.
  concurrency::CancelToken cancel = {};
  /// The file system and the clock; tests replace them.
  SessionEnvironment environment = {};
};

/// Waits until `directory` contains a complete checkpoint that is newer than `last` (without
/// `last`: any), and returns the newest; returns nothing after a timeout or a cancellation. The
/// directory need not exist yet. Broken checkpoints are skipped with a warning. `min_interval` and
/// `timeout_fn` are for iterators only. TensorFlow: evaluation.wait_for_new_checkpoint.
///
/// Throws kInvalidArgument for an empty path, a negative timeout and a poll that is not above 0,
/// and as `io::FileSystem`.
std::optional<checkpoint::Checkpoint> wait_for_new_checkpoint(
    const io::Path& directory, const std::optional<checkpoint::Checkpoint>& last = std::nullopt,
    const CheckpointsIteratorOptions& options = {});

/// Iterates over the checkpoints of a training while it writes them, for evaluation: each
/// checkpoint at most once, always the newest, so that a slow evaluation skips some and stays up to
/// date. TensorFlow: tf.train.checkpoints_iterator.
///
///   CheckpointsIterator checkpoints("/tmp/run", {.timeout = std::chrono::minutes(10)});
///   while (const auto checkpoint = checkpoints.next()) { ... }
///
/// A checkpoint is new if it was saved after the last one, whatever its step, or if the last one no
/// longer exists. Broken checkpoints are skipped, with one warning each.
///
/// Thread-safety: one thread; the training may be in another thread or process.
class CheckpointsIterator {
 public:
  /// Throws kInvalidArgument as `wait_for_new_checkpoint`, and for a negative `min_interval`.
  explicit CheckpointsIterator(io::Path directory, CheckpointsIteratorOptions options = {});
  CheckpointsIterator(const CheckpointsIterator&) = delete;
  CheckpointsIterator& operator=(const CheckpointsIterator&) = delete;

  /// The next checkpoint; nothing at the end: after a timeout or a cancellation.
  std::optional<checkpoint::Checkpoint> next();

  /// The broken checkpoints found so far.
  const std::vector<checkpoint::BrokenCheckpoint>& passed_over() const { return passed_over_; }

 private:
  friend std::optional<checkpoint::Checkpoint> wait_for_new_checkpoint(
      const io::Path&, const std::optional<checkpoint::Checkpoint>&,
      const CheckpointsIteratorOptions&);
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
  /// The newest checkpoint that was verified: reading it again at each poll would be expensive.
  std::optional<std::pair<io::Path, std::int64_t>> examined_;
  std::set<io::Path> reported_;
  std::vector<checkpoint::BrokenCheckpoint> passed_over_;
};

}  // namespace brigade::train

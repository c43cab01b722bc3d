#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <vector>

#include "brigade/concurrency/stage_timeline.h"

namespace brigade::concurrency {

/// Work of a task that any device may compute, at any time before the task needs the result.
struct DeferredWork {
  StageWork kind = StageWork::kWeightGradient;
  int task = 0;
  /// The stage whose activations it needs; kNoStage: it needs none.
  int stage = kNoStage;
  std::function<void()> compute;

  static constexpr int kNoStage = -1;
};

/// The deferred work of all tasks that is not done: queued for a device, or being computed by one.
///
/// Thread-safety: none; its owner's lock guards it.
class DeferredQueue {
 public:
  DeferredQueue(int tasks, int stages);

  void push(DeferredWork work);
  /// Whether nothing is queued.
  bool empty() const { return queue_.empty(); }
  /// Removes the work that was pushed first. Not of an empty queue.
  DeferredWork pop();
  /// The same for one task; nothing if it has no queued work.
  std::optional<DeferredWork> pop_of(int task);
  /// Work that was popped is done, or has thrown `error`.
  void done(const DeferredWork& work, std::exception_ptr error);
  /// Removes all queued work of a task, which then nobody does.
  std::vector<DeferredWork> remove(int task);
  void remove_all() { *this = DeferredQueue(tasks(), stages()); }

  /// Whether no work of the task is queued or being computed.
  bool is_done(int task) const;
  /// Whether work of the task that needs the activations of `stage` is not done.
  bool keeps(int task, int stage) const;
  /// The number of tasks whose activations `stage` keeps for such work.
  int kept(int stage) const;
  /// The first error of the task's work, once; null if there is none.
  std::exception_ptr take_error(int task);

 private:
  int tasks() const { return static_cast<int>(open_.size()); }
  int stages() const { return static_cast<int>(open_.front().size()) - 1; }
  int& open(const DeferredWork& work);

  std::deque<DeferredWork> queue_;
  std::vector<std::vector<int>> open_;      // [task][stage + 1]: pieces that are not done
  std::vector<std::exception_ptr> errors_;  // [task]
};

}  // namespace brigade::concurrency

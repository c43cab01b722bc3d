#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <vector>

#include "brigade/concurrency/stage_timeline.h"

namespace brigade::concurrency {

/// Work of a task that another device than its own may do, at any time until the task waits for it.
struct DeferredWork {
  StageWork kind = StageWork::kWeightGradient;
  int task = 0;
  /// The stage whose activations it keeps; kNoStage: it keeps none.
  int stage = kNoStage;
  std::function<void()> compute;

  static constexpr int kNoStage = -1;
};

/// What tasks have deferred and is not done: it waits here for a device, or a device computes it.
///
/// Thread-safety: none; its owner's lock guards it.
class DeferredQueue {
 public:
  DeferredQueue(int tasks, int stages);

  void push(DeferredWork work);
  /// Whether nothing waits for a device.
  bool empty() const { return queue_.empty(); }
  /// Takes the work that was pushed first. Not of an empty queue.
  DeferredWork pop();
  /// The same of one task; nothing if none of it waits.
  std::optional<DeferredWork> pop_of(int task);
  /// Work that was popped is done, or has thrown `error`.
  void done(const DeferredWork& work, std::exception_ptr error);
  /// Takes all work of a task that waits, which is then not done by anybody.
  std::vector<DeferredWork> remove(int task);
  void remove_all() { *this = DeferredQueue(tasks(), stages()); }

  /// Whether no work of the task waits or is computed.
  bool is_done(int task) const;
  /// Whether some of the task's pass through `stage` is not done.
  bool keeps(int task, int stage) const;
  /// The number of tasks of which `stage` keeps activations.
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

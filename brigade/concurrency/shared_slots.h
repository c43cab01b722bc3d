#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "brigade/concurrency/execution_slots.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {

/// Tasks that share devices: each has one slot, and several may have the same, of which one
/// computes at a time.
///
/// If several tasks wait for a slot, the one with the lowest number gets it first. After `start`,
/// the tasks of a slot begin in the order of their numbers, whichever thread comes first.
///
/// A task that is alone in its slot never waits for it, and pays nothing. A task that keeps its
/// slot without end keeps the others of the slot waiting: whoever waits for those in a collective
/// gets its time-out.
///
/// Thread-safety: see ExecutionSlots.
class SharedSlots final : public ExecutionSlots {
 public:
  /// `slot_of_task`: [task], the number of its slot, 0 or more. Throws kInvalidArgument for
  /// negative numbers.
  explicit SharedSlots(const std::vector<int>& slot_of_task);

  /// The slots are given to the tasks in their order, each when it calls `acquire`.
  void start() override;
  void acquire(int task) override;
  /// Gives the slot to the waiting task with the lowest number if there is one.
  void release(int task) override;
  /// Does nothing: every task gives its slot back sooner or later, also after a failure.
  void abort(const std::string&) override {}

  /// Whether `task` has a slot with others.
  bool is_shared(int task) const {
    return slot_of_task_[static_cast<std::size_t>(task)] != nullptr;
  }

 private:
  enum class TaskState { kComputesOrAway, kWaits, kGranted };

  /// A slot that several tasks have.
  struct Slot {
    explicit Slot(std::size_t tasks) : states(tasks, TaskState::kComputesOrAway), granted(tasks) {}
    void grant_next() BRIGADE_REQUIRES(mutex);

    Mutex mutex;
    bool is_taken BRIGADE_GUARDED_BY(mutex) = false;
    std::vector<TaskState> states BRIGADE_GUARDED_BY(mutex);  // [index of a task in the slot]
    std::vector<Condition> granted;                           // [index]: its own, so that one wakes
  };

  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> slot_of_task_;         // [task]: null if it is alone in its slot
  std::vector<std::size_t> index_in_slot_;  // [task]
};

}  // namespace brigade::concurrency

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {

/// Lets several threads share a device so that one of them computes at a time. Each task (a
/// replica, a micro-batch) is a thread and has one slot; several tasks may have the same slot. A
/// task computes while it holds its slot: it acquires it when it starts, and releases it when it
/// ends and while it waits for others. So tasks may wait for one another in collectives although
/// only one of a slot runs.
///
/// If several tasks wait for a slot, the one with the lowest number gets it first. After `start`,
/// the tasks of a slot begin in the order of their numbers, whichever thread comes first.
///
/// A task that is alone in its slot never waits for it, and pays nothing. A task that keeps its
/// slot without end keeps the others of the slot waiting: whoever waits for those in a collective
/// gets its time-out.
///
/// Thread-safety: each task from its own thread; `start` while no task runs.
class ExecutionSlots {
 public:
  /// `slot_of_task`: [task], the number of its slot, 0 or more. Throws kInvalidArgument for
  /// negative numbers.
  explicit ExecutionSlots(const std::vector<int>& slot_of_task);

  /// All tasks are about to begin, each with `acquire`: the slots are theirs in their order.
  void start();
  /// Waits until no other task has the slot of `task`, and takes it.
  void acquire(int task);
  /// Gives the slot back, to the waiting task with the lowest number if there is one.
  void release(int task);

  /// Whether `task` has a slot with others.
  bool is_shared(int task) const {
    return slot_of_task_[static_cast<std::size_t>(task)] != nullptr;
  }

  /// Holds the slot of a task: from its start to its end.
  class Hold {
   public:
    /// `slots` may be null: nothing is held.
    Hold(ExecutionSlots* slots, int task) : slots_(slots), task_(task) {
      if (slots_) slots_->acquire(task_);
    }
    ~Hold() {
      if (slots_) slots_->release(task_);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    ExecutionSlots* const slots_;
    const int task_;
  };

  /// Gives the slot of a task to others while the task waits for them, and takes it back in the
  /// destructor, also when the wait throws.
  class Yield {
   public:
    /// `slots` may be null: nothing is given.
    Yield(ExecutionSlots* slots, int task) : slots_(slots), task_(task) {
      if (slots_) slots_->release(task_);
    }
    ~Yield() {
      if (slots_) slots_->acquire(task_);
    }
    Yield(const Yield&) = delete;
    Yield& operator=(const Yield&) = delete;

   private:
    ExecutionSlots* const slots_;
    const int task_;
  };

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

#pragma once

#include <string>

namespace brigade::concurrency {

/// Decides which of several threads compute, so that a device that several of them share is used by
/// one at a time. Each task (a replica, a micro-batch) is a thread. It computes while it holds a
/// slot: from its start to its end (`Hold`), but not while it waits for others (`Yield`). So tasks
/// may wait for one another in collectives although only one per slot runs.
///
/// `SharedSlots` gives each task the slot of its device; `StageSlots` moves tasks through the
/// stages of a pipeline.
///
/// Thread-safety: each task from one thread at a time; `abort` from any; `start` while no task
/// runs.
class ExecutionSlots {
 public:
  ExecutionSlots() = default;
  virtual ~ExecutionSlots() = default;
  ExecutionSlots(const ExecutionSlots&) = delete;
  ExecutionSlots& operator=(const ExecutionSlots&) = delete;

  /// All tasks are about to begin. If this throws, none begins.
  virtual void start() = 0;
  /// The task begins: waits for its first slot. Does not throw.
  virtual void begin(int task) { acquire(task); }
  /// The task has ended, and needs no slot any more. Does not throw.
  virtual void end(int task) { release(task); }
  /// Waits for a slot for `task`, and takes it. Does not throw: destructors call it.
  virtual void acquire(int task) = 0;
  /// Releases the slot of `task`, which is about to wait for others.
  virtual void release(int task) = 0;
  /// A task has failed: no task waits for a slot until the next `start`.
  virtual void abort(const std::string& reason) = 0;

  /// Holds the slot of a task: from its start to its end.
  class Hold {
   public:
    /// `slots` may be null: nothing is held.
    Hold(ExecutionSlots* slots, int task) : slots_(slots), task_(task) {
      if (slots_) slots_->begin(task_);
    }
    ~Hold() {
      if (slots_) slots_->end(task_);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    ExecutionSlots* const slots_;
    const int task_;
  };

  /// Releases the slot of a task while it waits for others, and takes a slot again in the
  /// destructor, also when the wait throws.
  class Yield {
   public:
    /// `slots` may be null: nothing is released.
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
};

}  // namespace brigade::concurrency

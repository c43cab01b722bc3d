#pragma once

namespace brigade::concurrency {

/// The threads of tasks that move from device to device, for whoever keeps each on the cores of the
/// device that it has.
///
/// Thread-safety: `begin` and `end` from the task's thread, `move` between them from any, one at a
/// time for each task.
class TaskThreads {
 public:
  virtual ~TaskThreads() = default;

  /// The calling thread is the task's until `end`.
  virtual void begin(int task) = 0;
  virtual void end(int task) = 0;
  /// The task gets this device, and its thread waits or is the calling one. Must not wait or throw.
  virtual void move(int task, int device) = 0;
};

}  // namespace brigade::concurrency

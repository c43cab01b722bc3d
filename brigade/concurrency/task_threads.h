#pragma once

namespace brigade::concurrency {

/// Follows the threads of tasks that move from device to device, to keep each thread on the cores
/// of its task's device.
///
/// Thread-safety: `begin` and `end` from the task's thread, `move` between them from any, one at a
/// time for each task.
class TaskThreads {
 public:
  virtual ~TaskThreads() = default;

  /// The calling thread is the task's until `end`.
  virtual void begin(int task) = 0;
  virtual void end(int task) = 0;
  /// The task gets this device; its thread waits for it, or is the calling one. Must not wait or
  /// throw.
  virtual void move(int task, int device) = 0;
};

}  // namespace brigade::concurrency

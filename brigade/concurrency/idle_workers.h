#pragma once

#include <optional>
#include <vector>

#include "brigade/concurrency/deferred_work.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {

/// The threads that compute for idle devices, one for each device: each waits in `next` for the
/// work that `assign` gives to it.
///
/// Thread-safety: none. The owner's mutex guards it, and is an argument of the calls that wait.
class IdleWorkers {
 public:
  explicit IdleWorkers(int devices);

  /// Whether every device has its thread, and `stop` was not called.
  bool are_ready() const;
  void wait_until_ready(Mutex& mutex) BRIGADE_REQUIRES(mutex);

  /// Only to a device whose thread has no work.
  void assign(int device, DeferredWork work);
  /// Called by the thread of `device`: waits for its work. Returns nothing after `stop`.
  std::optional<DeferredWork> next(int device, Mutex& mutex) BRIGADE_REQUIRES(mutex);
  void stop();

 private:
  struct Worker {
    bool has_thread = false;
    std::optional<DeferredWork> work;
    Condition has_work;
  };

  std::vector<Worker> workers_;  // [device]
  Condition all_ready_;
  bool is_stopped_ = false;
};

}  // namespace brigade::concurrency

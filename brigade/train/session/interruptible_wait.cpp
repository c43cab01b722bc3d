#include "brigade/train/session/interruptible_wait.h"

#include "brigade/concurrency/mutex.h"

namespace brigade::train {

void interruptible_wait(std::chrono::milliseconds time, const concurrency::CancelToken& cancel) {
  concurrency::Mutex mutex;
  concurrency::Condition changed;
  bool is_cancelled = false;
  const auto registration = cancel.on_cancel([&] {
    const concurrency::MutexLock lock(mutex);
    is_cancelled = true;
    changed.notify_all();
  });
  const auto deadline = std::chrono::steady_clock::now() + time;
  const concurrency::MutexLock lock(mutex);
  while (!is_cancelled && std::chrono::steady_clock::now() < deadline)
    changed.wait_until(mutex, deadline);
}

}  // namespace brigade::train

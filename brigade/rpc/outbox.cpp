#include "brigade/rpc/outbox.h"

#include <utility>

namespace brigade::rpc {

void Outbox::post(std::function<void()> call) {
  const concurrency::MutexLock lock(mutex_);
  calls_.push_back(std::move(call));
}

void Outbox::deliver() {
  {
    const concurrency::MutexLock lock(mutex_);
    if (is_delivering_) return;
    is_delivering_ = true;
  }
  for (;;) {
    std::function<void()> call;
    {
      const concurrency::MutexLock lock(mutex_);
      if (calls_.empty()) {
        is_delivering_ = false;
        return;
      }
      call = std::move(calls_.front());
      calls_.pop_front();
    }
    call();
  }
}

}  // namespace brigade::rpc

#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "brigade/base/handles.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::launch {

/// A queue through which other threads send items to the launcher's loop, which polls a descriptor.
///
/// Thread-safety: `put` from any thread; the rest from one.
template <class T>
class Mailbox {
 public:
  Mailbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void put(T item) {
    const concurrency::MutexLock lock(mutex_);
    items_.push_back(std::move(item));
    const std::uint64_t one = 1;
    // Fails only if the counter is full; then the reader has been woken already.
    [[maybe_unused]] const ssize_t written = ::write(event_.number(), &one, sizeof(one));
  }
  /// Readable while there are items.
  int descriptor() const { return event_.number(); }
  /// Takes all items, in the order of `put`.
  std::vector<T> take() {
    const concurrency::MutexLock lock(mutex_);
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t read = ::read(event_.number(), &count, sizeof(count));
    return std::exchange(items_, {});
  }

 private:
  const base::FileDescriptor event_;
  concurrency::Mutex mutex_;
  std::vector<T> items_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::launch

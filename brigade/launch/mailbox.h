#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/launch/file_descriptor.h"

namespace brigade::launch {

/// T from other threads to the launcher's loop, which waits on a descriptor.
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
    // It can only fail where the counter is full, and then the reader is awake.
    [[maybe_unused]] const ssize_t written = ::write(event_.number(), &one, sizeof(one));
  }
  /// Readable while there is news.
  int descriptor() const { return event_.number(); }
  /// In the order in which it came.
  std::vector<T> take() {
    const concurrency::MutexLock lock(mutex_);
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t read = ::read(event_.number(), &count, sizeof(count));
    return std::exchange(items_, {});
  }

 private:
  const FileDescriptor event_;
  concurrency::Mutex mutex_;
  std::vector<T> items_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::launch

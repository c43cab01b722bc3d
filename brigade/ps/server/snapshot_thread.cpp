#include "brigade/ps/server/snapshot_thread.h"

#include <exception>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::ps {

SnapshotThread::SnapshotThread(ParameterStore& store, std::uint64_t after_bytes)
    : store_(store), after_bytes_(after_bytes), thread_({.threads = 1, .name = "ps-snapshot"}) {
  check_argument(after_bytes > 0, "A snapshot is written after 1 byte of the log or more, not 0.");
}

SnapshotThread::~SnapshotThread() {
  thread_.wait_idle(concurrency::CancelToken());
}

void SnapshotThread::ask_above(std::uint64_t bytes) {
  const std::uint64_t has = store_.log_bytes();
  {
    const concurrency::MutexLock lock(mutex_);
    if (is_asked_ || has < failed_at_ + bytes) return;
    is_asked_ = true;
  }
  thread_.submit([this] { write(); });
}

void SnapshotThread::write() {
  std::uint64_t failed_at = 0;
  try {
    store_.snapshot();
  } catch (const std::exception& error) {
    failed_at = store_.log_bytes();
    base::log_error(
        "A snapshot of the server's variables failed; the log keeps all "
        "updates, and grows until one succeeds: ",
        base::without_stack_trace(error.what()));
  }
  const concurrency::MutexLock lock(mutex_);
  is_asked_ = false;
  failed_at_ = failed_at;
}

}  // namespace brigade::ps

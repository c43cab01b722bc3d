#include "brigade/ps/server/open_store.h"

#include <chrono>
#include <exception>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::ps {
namespace {

// Of waiting for another thread's sync, after which this one makes its own.
constexpr std::chrono::minutes kLongestWait{10};

}  // namespace

LogSyncThread::LogSyncThread(ParameterStore& store)
    : store_(store), thread_({.threads = 1, .name = "ps-log-sync"}) {}

LogSyncThread::~LogSyncThread() {
  thread_.wait_idle(concurrency::CancelToken());
}

void LogSyncThread::request() {
  {
    const concurrency::MutexLock lock(mutex_);
    if (is_asked_) return;
    is_asked_ = true;
  }
  thread_.submit([this] { sync(); });
}

void LogSyncThread::sync() {
  {
    const concurrency::MutexLock lock(mutex_);
    is_asked_ = false;  // what comes from here on may not be in this sync
  }
  try {
    store_.sync_log(std::chrono::steady_clock::now() + kLongestWait);
  } catch (const std::exception&) {
    // The log has failed: whoever waits for it gets its error.
  }
}

SnapshotThread::SnapshotThread(ParameterStore& store, std::uint64_t after_bytes)
    : store_(store), after_bytes_(after_bytes), thread_({.threads = 1, .name = "ps-snapshot"}) {
  check_argument(after_bytes > 0, "A snapshot is written after 1 byte of the log or more, not 0.");
}

SnapshotThread::~SnapshotThread() {
  thread_.wait_idle(concurrency::CancelToken());
}

void SnapshotThread::request_above(std::uint64_t bytes) {
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
        "A snapshot of the server's variables failed; the log keeps all updates, and grows until "
        "one succeeds: ",
        base::without_stack_trace(error.what()));
  }
  const concurrency::MutexLock lock(mutex_);
  is_asked_ = false;
  failed_at_ = failed_at;
}

OpenStore open_store(std::shared_ptr<io::FileSystem> files, ParameterStoreOptions options,
                     std::uint64_t snapshot_after_bytes) {
  OpenStore open{.latencies = std::make_shared<ServerLatencies>()};
  options.log.on_sync = [latencies = open.latencies](std::chrono::nanoseconds time) {
    latencies->log_syncs.add(time);
  };
  open.store = std::make_unique<ParameterStore>(std::move(files), std::move(options));
  open.snapshots = std::make_unique<SnapshotThread>(*open.store, snapshot_after_bytes);
  open.log_syncs = std::make_unique<LogSyncThread>(*open.store);
  return open;
}

}  // namespace brigade::ps

#include "brigade/ps/server/log_sync_thread.h"

#include <chrono>
#include <exception>

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
    // The log has failed: whoever waits for it is told.
  }
}

}  // namespace brigade::ps

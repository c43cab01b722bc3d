#pragma once

#include <cstdint>

#include "brigade/concurrency/mutex.h"
#include "brigade/concurrency/thread_pool.h"
#include "brigade/ps/store/parameter_store.h"

namespace brigade::ps {

/// Writes snapshots of a store on its own thread, so that pushes do not wait for them. One that
/// fails is logged, and tried again when the log has grown further: the log still has everything.
///
/// Thread-safety: all functions from any thread.
class SnapshotThread {
 public:
  /// `store` must outlive this. Throws kInvalidArgument for 0 bytes.
  SnapshotThread(ParameterStore& store, std::uint64_t after_bytes);
  /// Waits for the snapshots that have been asked for.
  ~SnapshotThread();

  /// Asks for a snapshot if the log has grown by `after_bytes` since the last one. Call it after
  /// changes.
  void consider() { ask_above(after_bytes_); }
  /// Asks for a snapshot if the log has anything.
  void request() { ask_above(1); }

 private:
  void ask_above(std::uint64_t bytes) BRIGADE_EXCLUDES(mutex_);
  void write() BRIGADE_EXCLUDES(mutex_);

  ParameterStore& store_;
  const std::uint64_t after_bytes_;
  concurrency::Mutex mutex_;
  bool is_asked_ BRIGADE_GUARDED_BY(mutex_) = false;        // one waits or is being written
  std::uint64_t failed_at_ BRIGADE_GUARDED_BY(mutex_) = 0;  // the log's bytes; 0: it has not failed
  concurrency::ThreadPool thread_;
};

}  // namespace brigade::ps

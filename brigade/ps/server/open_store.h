#pragma once

#include <cstdint>
#include <memory>

#include "brigade/concurrency/mutex.h"
#include "brigade/concurrency/thread_pool.h"
#include "brigade/io/file_system.h"
#include "brigade/ps/server/server_metrics.h"
#include "brigade/ps/store/parameter_store.h"

namespace brigade::ps {

/// Brings a store's log to the disk on its own thread, for pushes that are acknowledged later.
///
/// Thread-safety: all functions from any thread.
class LogSyncThread {
 public:
  /// `store` must outlive this.
  explicit LogSyncThread(ParameterStore& store);
  /// Waits for the syncs that have been asked for.
  ~LogSyncThread();

  /// Asks for a sync of all changes so far. An error is thrown by whoever waits for these, and by
  /// later changes.
  void request() BRIGADE_EXCLUDES(mutex_);

 private:
  void sync() BRIGADE_EXCLUDES(mutex_);

  ParameterStore& store_;
  concurrency::Mutex mutex_;
  bool is_asked_ BRIGADE_GUARDED_BY(mutex_) = false;  // a sync has not begun yet
  concurrency::ThreadPool thread_;
};

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
  void consider() { request_above(after_bytes_); }
  /// Asks for a snapshot if the log has anything.
  void request() { request_above(1); }

 private:
  void request_above(std::uint64_t bytes) BRIGADE_EXCLUDES(mutex_);
  void write() BRIGADE_EXCLUDES(mutex_);

  ParameterStore& store_;
  const std::uint64_t after_bytes_;
  concurrency::Mutex mutex_;
  bool is_asked_ BRIGADE_GUARDED_BY(mutex_) = false;        // one waits or is being written
  std::uint64_t failed_at_ BRIGADE_GUARDED_BY(mutex_) = 0;  // the log's bytes; 0: it has not failed
  concurrency::ThreadPool thread_;
};

/// A store that is in memory, with what a server needs to use it: so a replica becomes a server,
/// and a server a replica, without reading the store again.
struct OpenStore {
  std::shared_ptr<ServerLatencies> latencies;  ///< the store adds the times of its log
  std::unique_ptr<ParameterStore> store;
  std::unique_ptr<SnapshotThread> snapshots;  ///< uses the store
  std::unique_ptr<LogSyncThread> log_syncs;   ///< uses the store
};

/// Throws as ParameterStore.
OpenStore open_store(std::shared_ptr<io::FileSystem> files, ParameterStoreOptions options,
                     std::uint64_t snapshot_after_bytes);

}  // namespace brigade::ps

#pragma once

#include <cstdint>
#include <memory>

#include "brigade/io/file_system.h"
#include "brigade/ps/server/log_sync_thread.h"
#include "brigade/ps/server/server_metrics.h"
#include "brigade/ps/server/snapshot_thread.h"
#include "brigade/ps/store/parameter_store.h"

namespace brigade::ps {

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

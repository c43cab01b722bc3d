#include "brigade/ps/server/open_store.h"

#include <utility>

namespace brigade::ps {

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

#pragma once

#include <c10/core/Device.h>

#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "brigade/device/stream.h"
#include "brigade/distribute/input/batch_ops.h"
#include "brigade/distribute/input/input_options.h"

namespace brigade::distribute {

/// Identifies the per-replica batch that a function is called with.
struct ReplicaBatchId {
  std::uint64_t seed = 0;
  int replica = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
};

/// Calls `body` without gradients and with the batch's random numbers. Rethrows its exceptions with
/// the replica, step and epoch before the text.
void in_replica_map_context(const ReplicaBatchId& id, c10::Device device,
                            const std::function<void(ReplicaMapContext&)>& body);

/// Throws kInvalidArgument unless `after`, the number of examples that a function returned, equals
/// `before`, the number that it was given.
void check_example_count(std::int64_t before, std::int64_t after);

/// The streams on which input is copied to the replicas' devices: [replica].
using CopyStreams = std::vector<device::CopyStream>;
std::shared_ptr<const CopyStreams> make_copy_streams(std::span<const c10::Device> devices);

/// A per-replica batch on its replica's device. The copy to the device may still be running.
struct DeviceBatch {
  std::any batch;
  /// Signaled when the batch is complete; unset if it was made on the caller's own stream.
  std::optional<device::StreamFence> ready{};

  /// The batch, for use on the calling thread's current stream of `device`: that stream waits for
  /// the copy, the host does not.
  std::any use_on(c10::Device device, const BatchOps& ops) &&;
};

/// Copies per-replica batches to the replicas' devices, and calls the function of `map_on_replica`
/// on them there.
///
/// Thread-safety: const calls from several threads; the function is called by one at a time.
class DeviceTransfer {
 public:
  /// Copies and functions are queued on `streams`, so that they can run before the work queued on
  /// the caller's stream; null: on the caller's stream.
  DeviceTransfer(const BatchOps& ops, std::vector<c10::Device> devices, const InputOptions& options,
                 ReplicaMapFunction<std::any> function,
                 std::shared_ptr<const CopyStreams> streams = nullptr);

  bool has_function() const { return static_cast<bool>(function_); }

  /// Transfers `batch` to the device of replica `local` of this process.
  DeviceBatch transfer(std::any batch, std::size_t local, const ReplicaBatchId& id) const;

 private:
  std::any on_device(std::any batch, c10::Device device) const;
  std::any mapped(std::any batch, c10::Device device, const ReplicaBatchId& id) const;

  BatchOps ops_;
  std::vector<c10::Device> devices_;  // [replica], like streams_
  InputOptions options_;
  ReplicaMapFunction<std::any> function_;
  mutable std::mutex calling_;                  // held while the function is called
  std::shared_ptr<const CopyStreams> streams_;  // null: the caller's streams are used
};

}  // namespace brigade::distribute

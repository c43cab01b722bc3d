#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/nccl/stream_fence.h"
#include "brigade/device/copy_stream.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/replica_map.h"
#include "brigade/input/split.h"
#include "brigade/input/to_device.h"

namespace brigade::distribute {

/// A per-replica batch on its replica's device. The copy to the device may still be running.
template <class B>
struct DeviceBatch {
  B batch;
  /// Signaled when the batch is complete; unset if it was made on the caller's own stream.
  std::optional<comm::StreamFence> ready{};

  /// The batch, for use on the calling thread's current stream of `device`: that stream waits for
  /// the copy, the host does not.
  B use_on(c10::Device device) && {
    if (!ready) return std::move(batch);
    ready->wait(device);
    return input::each_tensor(batch, [](const at::Tensor& tensor) {
      device::use_on_current_stream(tensor);
      return tensor;
    });
  }
};

/// Throws kFailedPrecondition if a tensor of a batch is not on its replica's device.
void check_on_device(const at::Tensor& tensor, c10::Device device);

/// Copies per-replica batches to the replicas' devices, and calls the function of `map_on_replica`
/// on them there.
///
/// Thread-safety: const calls from several threads; the function is called by one at a time.
template <class B>
class DeviceTransfer {
 public:
  /// With `uses_copy_streams`, copies and functions are queued on separate streams, so that they
  /// can run before the work queued on the caller's stream; otherwise on the caller's stream.
  DeviceTransfer(std::vector<c10::Device> devices, const InputOptions& options,
                 ReplicaMapFunction<B> function, bool uses_copy_streams)
      : devices_(std::move(devices)), options_(options), function_(std::move(function)) {
    if (function_) prepare_replica_map_contexts();
    if (!uses_copy_streams) return;
    for (const c10::Device device : devices_) streams_.emplace_back(device);
  }

  bool has_function() const { return static_cast<bool>(function_); }

  /// Transfers `batch` to the device of replica `local` of this process.
  DeviceBatch<B> transfer(B batch, std::size_t local, const ReplicaBatchId& id) const {
    const c10::Device device = devices_[local];
    if (streams_.empty() || device.is_cpu())
      return {.batch = mapped(on_device(std::move(batch), device), device, id)};
    const device::CopyStream& stream = streams_[local];
    const device::CopyStream::Scope on_stream(stream);
    DeviceBatch<B> transferred{.batch = mapped(copied(stream, batch), device, id),
                               .ready = comm::StreamFence()};
    transferred.ready->record(device);
    return transferred;
  }

 private:
  B on_device(B batch, c10::Device device) const {
    if (options_.placement == DatasetPlacement::kOnReplica) {
      return input::each_tensor(batch, [&](const at::Tensor& tensor) {
        check_on_device(tensor, device);
        return tensor;
      });
    }
    const bool fetches = options_.fetch == DeviceFetch::kToReplica && !device.is_cpu();
    return fetches ? input::to_device(batch, device) : std::move(batch);
  }
  static B copied(const device::CopyStream& stream, const B& batch) {
    return input::each_tensor(batch, [&](const at::Tensor& tensor) { return stream.copy(tensor); });
  }
  B mapped(B batch, c10::Device device, const ReplicaBatchId& id) const {
    if (!function_) return batch;
    const std::int64_t examples = input::examples_in(batch);
    std::optional<B> result;
    in_replica_map_context(id, device, [&](ReplicaMapContext& context) {
      result.emplace(function_(std::move(batch), context));
      check_example_count(examples, input::examples_in(*result));
    });
    return std::move(*result);
  }

  std::vector<c10::Device> devices_;  // [replica], like streams_
  InputOptions options_;
  ReplicaMapFunction<B> function_;
  std::vector<device::CopyStream> streams_;  // empty if the caller's streams are used
};

}  // namespace brigade::distribute

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

/// A replica's share where it was asked for, which may still be on its way there.
template <class B>
struct DeviceBatch {
  B share;
  /// Passes when the share is whole; unset where it was made on the taker's own stream.
  std::optional<comm::StreamFence> whole{};

  /// The share, for use on the calling thread's current stream of `device`. The host does not wait.
  B received(c10::Device device) && {
    if (!whole) return std::move(share);
    whole->wait(device);
    return input::each_tensor(share, [](const at::Tensor& tensor) {
      device::use_on_current_stream(tensor);
      return tensor;
    });
  }
};

/// Throws kFailedPrecondition if a tensor of a batch lies elsewhere than on its replica's device.
void check_on_device(const at::Tensor& tensor, c10::Device device);

/// Brings shares of batches to the replicas' devices, and does there what `map_on_replica` asked
/// for.
///
/// Thread-safety: const calls from several threads; the function is called by one at a time.
template <class B>
class DeviceTransfer {
 public:
  /// With `uses_copy_streams` the work is queued on streams of its own, to be done ahead of its
  /// taker's; else on the caller's.
  DeviceTransfer(std::vector<c10::Device> devices, const InputOptions& options,
              ReplicaMapFunction<B> function, bool uses_copy_streams)
      : devices_(std::move(devices)), options_(options), function_(std::move(function)) {
    if (function_) prepare_replica_map_contexts();
    if (!uses_copy_streams) return;
    for (const c10::Device device : devices_) streams_.emplace_back(device);
  }

  bool has_function() const { return static_cast<bool>(function_); }

  /// Of the process's replica `local`.
  DeviceBatch<B> place(B share, std::size_t local, const ReplicaBatchId& id) const {
    const c10::Device device = devices_[local];
    if (streams_.empty() || device.is_cpu())
      return {.share = worked_on(on_device(std::move(share), device), device, id)};
    const device::CopyStream& stream = streams_[local];
    const device::CopyStream::Scope on_stream(stream);
    DeviceBatch<B> placed{.share = worked_on(through(stream, share), device, id),
                          .whole = comm::StreamFence()};
    placed.whole->record(device);
    return placed;
  }

 private:
  B on_device(B share, c10::Device device) const {
    if (options_.placement == DatasetPlacement::kOnReplica) {
      return input::each_tensor(share, [&](const at::Tensor& tensor) {
        check_on_device(tensor, device);
        return tensor;
      });
    }
    const bool fetches = options_.fetch == DeviceFetch::kToReplica && !device.is_cpu();
    return fetches ? input::to_device(share, device) : std::move(share);
  }
  static B through(const device::CopyStream& stream, const B& share) {
    return input::each_tensor(share, [&](const at::Tensor& tensor) { return stream.copy(tensor); });
  }
  B worked_on(B share, c10::Device device, const ReplicaBatchId& id) const {
    if (!function_) return share;
    const std::int64_t examples = input::examples_in(share);
    std::optional<B> result;
    in_replica_map_context(id, device, [&](ReplicaMapContext& context) {
      result.emplace(function_(std::move(share), context));
      check_example_count(examples, input::examples_in(*result));
    });
    return std::move(*result);
  }

  std::vector<c10::Device> devices_;  // [replica], like streams_
  InputOptions options_;
  ReplicaMapFunction<B> function_;
  std::vector<device::CopyStream> streams_;  // none where shares are made on the caller's
};

}  // namespace brigade::distribute

#include "brigade/distribute/device_transfer.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/error_context.h"
#include "brigade/device/random_scope.h"

namespace brigade::distribute {

namespace {

void check_on_device(const at::Tensor& tensor, c10::Device device) {
  if (tensor.device() == device) return;
  throw Error(ErrorCode::kFailedPrecondition, "A batch of the replica on ", device.str(), " is on ",
              tensor.device().str(),
              ": with DatasetPlacement::kOnReplica a dataset must make its batches on the device "
              "that InputContext::torch_device names.");
}

}  // namespace

void in_replica_map_context(const ReplicaBatchId& id, c10::Device device,
                            const std::function<void(ReplicaMapContext&)>& body) {
  const std::uint64_t root = base::mix_seed(id.seed, id.epoch);
  const auto replica = static_cast<std::uint64_t>(id.replica);
  base::CounterRng rng(base::derive_seed(root, "map_on_replica", replica, id.step));
  device::ReplicaGenerator generator(base::derive_seed(root, "map_on_replica/torch", 0, 0),
                                     replica);
  generator.begin_step(id.step);
  const device::RandomScope random(generator);
  const at::NoGradGuard no_grad;
  ReplicaMapContext context{
      .replica = id.replica, .epoch = id.epoch, .step = id.step, .device = device, .rng = rng};
  try {
    body(context);
  } catch (...) {
    data::internal::rethrow_with_context(base::str_cat("map_on_replica, batch of replica ",
                                                       id.replica, " at step ", id.step,
                                                       " of epoch ", id.epoch, ": "));
  }
}

void check_example_count(std::int64_t before, std::int64_t after) {
  check_argument(before == after, "the function returned ", after, " examples for ", before,
                 "; it must keep their number: use Dataset::map, filter or unbatch before the "
                 "dataset is distributed.");
}

std::any DeviceBatch::use_on(c10::Device device, const BatchOps& ops) && {
  if (!ready) return std::move(batch);
  ready->wait(device);
  return ops.each_tensor(batch, [](const at::Tensor& tensor) {
    device::use_on_current_stream(tensor);
    return tensor;
  });
}

std::shared_ptr<const CopyStreams> make_copy_streams(std::span<const c10::Device> devices) {
  return std::make_shared<const CopyStreams>(devices.begin(), devices.end());
}

DeviceTransfer::DeviceTransfer(const BatchOps& ops, std::vector<c10::Device> devices,
                               const InputOptions& options, ReplicaMapFunction<std::any> function,
                               std::shared_ptr<const CopyStreams> streams)
    : ops_(ops),
      devices_(std::move(devices)),
      options_(options),
      function_(std::move(function)),
      streams_(std::move(streams)) {
  // Before other threads run tensor operations: see device::ReplicaGenerator.
  if (function_) const device::ReplicaGenerator first(0, 0);
}

DeviceBatch DeviceTransfer::transfer(std::any batch, std::size_t local,
                                     const ReplicaBatchId& id) const {
  const c10::Device device = devices_[local];
  if (!streams_ || device.is_cpu())
    return {.batch = mapped(on_device(std::move(batch), device), device, id)};
  const device::CopyStream& stream = (*streams_)[local];
  const device::CopyStream::Scope on_stream(stream);
  std::any copied =
      ops_.each_tensor(batch, [&](const at::Tensor& tensor) { return stream.copy(tensor); });
  DeviceBatch transferred{.batch = mapped(std::move(copied), device, id),
                          .ready = device::StreamFence()};
  transferred.ready->record(device);
  return transferred;
}

std::any DeviceTransfer::on_device(std::any batch, c10::Device device) const {
  if (options_.placement == DatasetPlacement::kOnReplica) {
    ops_.each_tensor(batch, [&](const at::Tensor& tensor) {
      check_on_device(tensor, device);
      return tensor;
    });
    return batch;
  }
  if (options_.fetch == DeviceFetch::kStayOnHost || device.is_cpu()) return batch;
  return ops_.each_tensor(
      batch, [&](const at::Tensor& tensor) { return input::tensor_to_device(tensor, device); });
}

std::any DeviceTransfer::mapped(std::any batch, c10::Device device,
                                const ReplicaBatchId& id) const {
  if (!function_) return batch;
  const std::int64_t examples = ops_.examples_in(batch);
  std::any result;
  const std::lock_guard lock(calling_);
  in_replica_map_context(id, device, [&](ReplicaMapContext& context) {
    result = function_(std::move(batch), context);
    check_example_count(examples, ops_.examples_in(result));
  });
  return result;
}

}  // namespace brigade::distribute

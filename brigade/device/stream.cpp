#include "brigade/device/stream.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace brigade::device {

namespace {

// Negative: higher than that of `make_stream`.
constexpr int kCopyPriority = -1;

/// From libtorch's caching allocator, which keeps a block until the copies that read it are done.
at::Tensor pinned_copy(const at::Tensor& tensor) {
  if (tensor.is_pinned()) return tensor;
  at::Tensor pinned = at::empty_like(tensor, tensor.options().pinned_memory(true));
  pinned.copy_(tensor);
  return pinned;
}

}  // namespace

c10::Stream make_stream(const Device& device) {
  return c10::impl::VirtualGuardImpl(device.torch_device.type()).getNewStream(device.torch_device);
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void synchronize(const c10::Stream& stream) {
  c10::impl::VirtualGuardImpl(stream.device_type()).synchronizeStream(stream);
}

CopyStream::CopyStream(c10::Device device) : device_(device) {
  if (device_.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device_.type()).getNewStream(device_, kCopyPriority);
}

at::Tensor CopyStream::copy(const at::Tensor& tensor) const {
  if (!stream_ || tensor.device() == device_) return tensor;
  const Scope on_this_stream(*this);
  // Between GPUs libtorch orders the streams of both itself, and the host needs no buffer.
  const at::Tensor source = tensor.device().is_cpu() ? pinned_copy(tensor) : tensor;
  return source.to(device_, /*non_blocking=*/true);
}

CopyStream::Scope::Scope(const CopyStream& stream) {
  if (stream.stream_) current_.emplace(*stream.stream_);
}

void use_on_current_stream(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(tensor.device().type());
  tensor.record_stream(guard.getStream(tensor.device()));
}

void StreamFence::record(std::span<const c10::Device> devices) {
  for (Mark& mark : marks_) mark.is_recorded = false;
  for (const c10::Device device : devices) {
    if (device.is_cpu()) continue;
    Mark& mark = mark_of(device);
    mark.event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    mark.is_recorded = true;
  }
}

void StreamFence::wait(c10::Device device) const {
  if (device.is_cpu()) return;
  for (const Mark& mark : marks_) {
    if (!mark.is_recorded) continue;
    const c10::impl::VirtualGuardImpl guard(device.type());
    // Event::block is not const, but waiting does not change the event.
    const_cast<c10::Event&>(mark.event).block(guard.getStream(device));
  }
}

StreamFence::Mark& StreamFence::mark_of(c10::Device device) {
  for (Mark& mark : marks_) {
    if (mark.device == device) return mark;
  }
  return marks_.emplace_back(Mark{.device = device, .event = c10::Event(device.type())});
}

}  // namespace brigade::device

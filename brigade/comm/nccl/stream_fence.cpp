#include "brigade/comm/nccl/stream_fence.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace brigade::comm {

void StreamFence::record(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  event_.emplace(device.type());
  event_->record(guard.getStream(device));
}

void StreamFence::wait(c10::Device device) const {
  if (!event_ || device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  // Event::block is not const, but waiting does not change the event.
  const_cast<c10::Event&>(*event_).block(guard.getStream(device));
}

}  // namespace brigade::comm

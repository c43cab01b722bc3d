#include "brigade/device/stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace brigade::device {

c10::Stream make_stream(const Device& device) {
  return c10::impl::VirtualGuardImpl(device.torch_device.type()).getNewStream(device.torch_device);
}

void synchronize(const c10::Stream& stream) {
  c10::impl::VirtualGuardImpl(stream.device_type()).synchronizeStream(stream);
}

}  // namespace brigade::device

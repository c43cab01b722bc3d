#include "brigade/device/memory_fraction.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>

namespace brigade::device {

void set_memory_fraction(int card, double fraction) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // creates the allocator
  c10::cuda::CUDACachingAllocator::setMemoryFraction(fraction, static_cast<c10::DeviceIndex>(card));
}

}  // namespace brigade::device

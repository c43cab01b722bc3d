#include "brigade/device/cuda_cards.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

namespace brigade::device {

void set_memory_fraction(int card, double fraction) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // creates the allocator
  c10::cuda::CUDACachingAllocator::setMemoryFraction(fraction, static_cast<c10::DeviceIndex>(card));
}

// The runtime's query instead of libtorch's at::cuda::get_p2p_access, which also enables the access
// and takes memory on both cards.
bool has_peer_access(int from, int to) {
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess) return can != 0;
  cudaGetLastError();  // clears the error, which libtorch would otherwise report at its next call
  return false;
}

}  // namespace brigade::device

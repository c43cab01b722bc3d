#include "brigade/device/cuda_cards.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cctype>

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

std::string pci_bus_id(int card) {
  std::array<char, 32> id{};
  if (cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), card) != cudaSuccess) {
    cudaGetLastError();
    return "";
  }
  std::ranges::transform(id, id.begin(), [](unsigned char c) { return std::tolower(c); });
  return id.data();
}

}  // namespace brigade::device

#include "brigade/device/peer_query.h"

#include <cuda_runtime_api.h>

namespace brigade::device {

// The runtime's own question rather than libtorch's at::cuda::get_p2p_access: that one also enables
// the access, which takes memory on both cards.
bool has_peer_access(int from, int to) {
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess) return can != 0;
  cudaGetLastError();  // or libtorch would report it at its next call
  return false;
}

}  // namespace brigade::device

#include "brigade/device/peer_query.h"

#include <cuda_runtime_api.h>

namespace brigade::device {

// The runtime's query instead of libtorch's at::cuda::get_p2p_access, which also enables the access
// and takes memory on both cards.
bool has_peer_access(int from, int to) {
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess) return can != 0;
  cudaGetLastError();  // clears the error, which libtorch would otherwise report at its next call
  return false;
}

}  // namespace brigade::device

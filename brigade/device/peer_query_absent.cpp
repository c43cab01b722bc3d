// The build without CUDA.
#include "brigade/device/peer_query.h"

namespace brigade::device {

bool has_peer_access(int, int) {
  return false;
}

}  // namespace brigade::device

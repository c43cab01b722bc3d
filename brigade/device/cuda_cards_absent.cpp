// The build without CUDA.
#include "brigade/device/cuda_cards.h"

namespace brigade::device {

void set_memory_fraction(int, double) {}

bool has_peer_access(int, int) {
  return false;
}

std::string pci_bus_id(int) {
  return "";
}

}  // namespace brigade::device

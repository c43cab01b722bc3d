// The build without CUDA.
#include "brigade/device/captured_graph.h"

namespace brigade::device {

std::unique_ptr<CapturedGraph> make_captured_graph(c10::Device) {
  return nullptr;
}

bool is_capturing(c10::Device) {
  return false;
}

}  // namespace brigade::device

// The build without CUDA.
#include "brigade/device/memory_fraction.h"

namespace brigade::device {

void set_memory_fraction(int, double) {}

}  // namespace brigade::device

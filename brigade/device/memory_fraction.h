#pragma once

namespace brigade::device {

/// Limits libtorch's allocator to this fraction of the GPU's memory. Does nothing without CUDA in
/// the program.
void set_memory_fraction(int card, double fraction);

}  // namespace brigade::device

#pragma once

namespace brigade::device {

/// Holds libtorch's allocator to this share of the card's memory. Nothing happens without CUDA in
/// the program.
void set_memory_fraction(int card, double fraction);

}  // namespace brigade::device

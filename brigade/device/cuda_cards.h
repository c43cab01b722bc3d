#pragma once

#include <string>

/// What only the CUDA libraries can do; nothing without CUDA in the program.
namespace brigade::device {

/// Limits libtorch's allocator to this fraction of the GPU's memory.
void set_memory_fraction(int card, double fraction);

/// Whether card `from` may read and write the memory of another card, `to`, directly. False without
/// CUDA in the program, without a driver, and for a card that does not exist.
bool has_peer_access(int from, int to);

/// Where the card is plugged in: "0000:65:00.0", as in /sys. Empty without CUDA in the program, and
/// for a card that does not exist.
std::string pci_bus_id(int card);

}  // namespace brigade::device

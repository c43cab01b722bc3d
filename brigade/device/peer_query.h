#pragma once

namespace brigade::device {

/// Whether card `from` may read and write the memory of another card, `to`, directly. False without
/// CUDA in the program, without a driver, and for a card that does not exist.
bool has_peer_access(int from, int to);

}  // namespace brigade::device

#pragma once

#include <memory>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// Whether this program was built with NCCL (decided when it is configured; see
/// docs/design/build.md).
bool nccl_is_built_in();

/// One communicator a rank whose reductions and broadcasts of CUDA tensors go through NCCL, each on
/// its rank's current stream, and everything else through `local`. `cards[rank]` is the rank's
/// card; NCCL wants them all different. Chosen by strategies where it is built in and every replica
/// has a card of its own.
///
/// NCCL adds in an order of its own choosing: the same in every run on the same cards, but not rank
/// order. Throws kUnimplemented if NCCL is not built in, kInvalidArgument if two ranks share a
/// card, kUnavailable (with NCCL's text) if NCCL fails.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    const std::vector<int>& cards, std::vector<std::unique_ptr<Communicator>> local);

}  // namespace brigade::comm

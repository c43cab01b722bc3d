#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// Collectives of single numbers and texts: counts, names, positions. They are sent as CPU tensors,
/// and throw what the calls of `Communicator` throw.

/// Returns the numbers of all ranks, combined by `op`.
std::int64_t all_reduce_number(Communicator& communicator, std::int64_t mine, ReduceOp op);

/// Returns the texts of all ranks, by rank. Texts may differ in length.
std::vector<std::string> all_gather_texts(Communicator& communicator, const std::string& mine);

}  // namespace brigade::comm

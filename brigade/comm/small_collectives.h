#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// Numbers and texts between ranks, where all need to know what each has: counts, names, positions.
/// They travel as tensors on CPU. Collectives, as the calls of `Communicator` that they make, with
/// its errors.

/// Everybody's number combined by `op`.
std::int64_t all_reduce_number(Communicator& communicator, std::int64_t mine, ReduceOp op);

/// Everybody's text, by rank. Texts may differ in length.
std::vector<std::string> all_gather_texts(Communicator& communicator, const std::string& mine);

}  // namespace brigade::comm

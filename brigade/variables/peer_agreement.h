#pragma once

#include <span>

#include "brigade/variables/peers.h"
#include "brigade/variables/variable.h"

namespace brigade::variables {

/// Proves that every process made the same variables (names, shapes, dtypes, in this order), and
/// gives all of them rank 0's values. Collective of the processes, outside of replicas. Throws
/// kFailedPrecondition in every process, naming the first variable that differs, what it is here
/// and what rank 0 has.
void agree_with_peers(std::span<const Variable> variables, const Peers& peers);

}  // namespace brigade::variables

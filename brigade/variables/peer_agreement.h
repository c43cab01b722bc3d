#pragma once

#include <span>

#include "brigade/variables/peers.h"
#include "brigade/variables/variable.h"

namespace brigade::variables {

/// Verifies that all processes created the same variables (names, shapes, dtypes, in the same
/// order), and gives all of them rank 0's values. A collective of the processes, outside of
/// replicas. Throws kFailedPrecondition in every process, naming the first variable that differs,
/// here and on rank 0.
void agree_with_peers(std::span<const Variable> variables, const Peers& peers);

}  // namespace brigade::variables

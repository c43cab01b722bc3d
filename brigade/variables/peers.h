#pragma once

#include <memory>
#include <span>

#include "brigade/comm/communicator.h"

namespace brigade::variables {

class Variable;

/// The processes that hold the same variables, if there are several. Outside of replicas, reading
/// an on-read variable (kOnRead) is then a collective of all processes: every process must read the
/// same variables in the same order.
struct Peers {
  std::shared_ptr<comm::Communicator> communicator;  ///< its ranks are the processes
  int num_components = 1;  ///< the components of a variable, over all processes
};

/// Verifies that all processes created the same variables (names, shapes, dtypes, in the same
/// order), and gives all of them rank 0's values. A collective of the processes, outside of
/// replicas. Throws kFailedPrecondition in every process, naming the first variable that differs,
/// here and on rank 0.
void agree_with_peers(std::span<const Variable> variables, const Peers& peers);

}  // namespace brigade::variables

#pragma once

#include <memory>

#include "brigade/comm/communicator.h"

namespace brigade::variables {

/// The processes that hold the same variables, if there are several. Outside of replicas, reading
/// an on-read variable (kOnRead) is then a collective of all processes: every process must read the
/// same variables in the same order.
struct Peers {
  std::shared_ptr<comm::Communicator> communicator;  ///< its ranks are the processes
  int num_components = 1;  ///< the components of a variable, over all processes
};

}  // namespace brigade::variables

#pragma once

#include <memory>

#include "brigade/comm/communicator.h"

namespace brigade::variables {

/// The processes that hold the same variables, where there are several. Reading a variable that
/// replicas write apart (kOnRead) is then a collective of all processes, outside of replicas: every
/// process reads the same variables in the same order.
struct Peers {
  std::shared_ptr<comm::Communicator> communicator;  ///< its ranks are the processes
  int num_components = 1;                            ///< of a variable, over all processes
};

}  // namespace brigade::variables

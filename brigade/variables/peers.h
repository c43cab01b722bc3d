#pragma once

#include <memory>

#include "brigade/comm/process_communicator.h"
#include "brigade/comm/process_layout.h"

namespace brigade::variables {

/// The processes that hold the same variables, if there are several. Outside of replicas, reading
/// an on-read variable (kOnRead) is then a collective of all processes: every process must read the
/// same variables in the same order.
struct Peers {
  std::shared_ptr<comm::ProcessCommunicator> communicator;
  /// The components of a variable in each process are those of its replicas.
  comm::ProcessLayout layout = {};
};

}  // namespace brigade::variables

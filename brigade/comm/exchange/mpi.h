#pragma once

#include <memory>
#include <string>

#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// Whether this program was built with an MPI library (decided when it is configured).
bool mpi_is_built_in();

/// The link over MPI, of processes that mpirun has started: a duplicate of MPI_COMM_WORLD, whose
/// ranks must be the membership's. Initializes MPI if nobody has, with MPI_THREAD_MULTIPLE, and
/// then finalizes it when the process exits with 0. `name` is the prefix of its keys in the
/// membership's store, by which a member tells the others that it has given up or left. Throws
/// kFailedPrecondition, naming both, where MPI's ranks are others than the membership's;
/// kUnimplemented without MPI.
std::unique_ptr<ProcessLink> make_mpi_link(std::shared_ptr<cluster::Membership> membership,
                                           const std::string& name,
                                           const CommunicationOptions& options);

}  // namespace brigade::comm

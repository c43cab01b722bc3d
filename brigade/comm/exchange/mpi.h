#pragma once

#include <memory>
#include <string>

#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// Whether this program was built with an MPI library (decided when it is configured).
bool mpi_is_built_in();

/// The link over MPI, between processes that mpirun started. It uses a duplicate of MPI_COMM_WORLD,
/// whose ranks must be those of the membership. Reductions add in rank order. If MPI is not
/// initialized yet, it is initialized with MPI_THREAD_MULTIPLE, and finalized when the process
/// exits with 0. `name` is the prefix of its keys in the membership's store, where a member reports
/// that it has given up or left. Throws kFailedPrecondition if MPI's ranks are not the membership's
/// (naming both), kUnimplemented without MPI.
std::unique_ptr<ProcessLink> make_mpi_link(std::shared_ptr<cluster::Membership> membership,
                                           const std::string& name,
                                           const CommunicationOptions& options);

}  // namespace brigade::comm

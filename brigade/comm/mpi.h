#pragma once

#include <memory>
#include <string>

#include "brigade/cluster/membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

/// The link over c10d's MPI. libtorch's wheel does not contain it, so today this throws
/// kUnimplemented and says what to use instead.
std::unique_ptr<ProcessLink> make_mpi_link(std::shared_ptr<cluster::Membership> membership,
                                           const std::string& name,
                                           const CommunicationOptions& options);

}  // namespace brigade::comm

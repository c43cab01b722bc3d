// Stands in for a link over c10d's MPI, which libtorch has only if it was built from source with
// USE_MPI.
#include "brigade/base/error.h"
#include "brigade/comm/mpi.h"

namespace brigade::comm {

std::unique_ptr<ProcessLink> make_mpi_link(std::shared_ptr<cluster::Membership>, const std::string&,
                                           const CommunicationOptions&) {
  throw Error(ErrorCode::kUnimplemented,
              "MPI is not built into this program: libtorch's wheel has no ProcessGroupMPI. Use "
              "the transport 'auto' or 'gloo'; processes that mpirun starts find each other by its "
              "environment all the same.");
}

}  // namespace brigade::comm

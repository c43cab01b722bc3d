// Replaces mpi.cpp if the program is configured without MPI.
#include "brigade/base/error.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

bool mpi_is_built_in() {
  return false;
}

std::unique_ptr<ProcessLink> make_mpi_link(std::shared_ptr<cluster::Membership>, const std::string&,
                                           const CommunicationOptions&) {
  throw Error(ErrorCode::kUnimplemented,
              "MPI is not built into this program: configure it where an MPI library is installed "
              "(Debian: libopenmpi-dev), or use the transport 'auto' or 'gloo'; processes started "
              "by mpirun can use these too.");
}

}  // namespace brigade::comm

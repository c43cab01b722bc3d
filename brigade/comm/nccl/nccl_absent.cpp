// Replaces nccl_library.cpp if the program is configured without NCCL.
#include "brigade/base/error.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/comm/nccl/nccl_communicator.h"

namespace brigade::comm {

bool nccl_is_built_in() {
  return false;
}

std::unique_ptr<NcclLibrary> find_nccl_library() {
  return nullptr;
}

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    const std::vector<int>&, std::vector<std::unique_ptr<Communicator>>) {
  throw Error(ErrorCode::kUnimplemented,
              "NCCL is not built into this program: configure with -DBRIGADE_WITH_CUDA=ON where "
              "nccl.h is installed.");
}

}  // namespace brigade::comm

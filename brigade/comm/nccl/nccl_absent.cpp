// Replaces nccl_library.cpp if the program is configured without NCCL.
#include "brigade/comm/nccl/nccl.h"
#include "brigade/comm/nccl/nccl_communicator.h"

namespace brigade::comm {

bool nccl_is_built_in() {
  return false;
}

std::unique_ptr<NcclLibrary> find_nccl_library() {
  return nullptr;
}

}  // namespace brigade::comm

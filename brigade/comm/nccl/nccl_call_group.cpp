#include "brigade/comm/nccl/nccl_call_group.h"

#include "brigade/comm/nccl/nccl_types.h"

namespace brigade::comm {

NcclCallGroup::NcclCallGroup() {
  check_nccl(ncclGroupStart(), "ncclGroupStart");
}

NcclCallGroup::~NcclCallGroup() {
  if (!has_ended_) ncclGroupEnd();
}

void NcclCallGroup::add(ncclResult_t result) {
  if (first_failure_ == ncclSuccess && result != ncclInProgress) first_failure_ = result;
}

void NcclCallGroup::end(std::string_view calls) {
  has_ended_ = true;
  const ncclResult_t result = ncclGroupEnd();
  check_nccl(first_failure_, calls);
  check_nccl(result, calls);
}

}  // namespace brigade::comm

#pragma once

#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <string_view>

#include "brigade/comm/communicator.h"

/// Calls of NCCL, for the sources that include nccl.h.
namespace brigade::comm {

/// Throws kUnavailable with NCCL's text unless the call succeeded or is in progress.
void check_nccl(ncclResult_t result, std::string_view call);

/// Groups NCCL calls between ncclGroupStart and ncclGroupEnd. The destructor ends the group in any
/// case: an open group would hold back all later NCCL calls of this thread.
///
/// Thread-safety: one thread.
class NcclCallGroup {
 public:
  NcclCallGroup();
  ~NcclCallGroup();
  NcclCallGroup(const NcclCallGroup&) = delete;
  NcclCallGroup& operator=(const NcclCallGroup&) = delete;

  void add(ncclResult_t result);
  /// Throws kUnavailable, naming `calls`, if one of them failed.
  void end(std::string_view calls);

 private:
  ncclResult_t first_failure_ = ncclSuccess;
  bool has_ended_ = false;
};

/// Whether NCCL supports the call's tensors: all on a GPU, dense and without overlap (in any order
/// of dimensions), of a dtype that it has.
bool nccl_takes(const CollectiveCall& call);
/// Enqueues a collective that NCCL takes on `stream`, of the GPU of `communicator`. Throws
/// kUnavailable with NCCL's text.
void enqueue(const CollectiveCall& call, ncclComm_t communicator, c10::cuda::CUDAStream stream);

}  // namespace brigade::comm

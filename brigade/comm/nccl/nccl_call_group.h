#pragma once

#include <nccl.h>

#include <string_view>

namespace brigade::comm {

/// Groups NCCL calls between ncclGroupStart and ncclGroupEnd. The destructor ends the group in any
/// case: an open group would hold back all later NCCL calls of this thread. For the sources that
/// include nccl.h.
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

}  // namespace brigade::comm

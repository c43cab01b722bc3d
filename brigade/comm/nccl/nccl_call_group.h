#pragma once

#include <nccl.h>

#include <string_view>

namespace brigade::comm {

/// Calls that NCCL is to see as one. A group that was begun is ended in any case: NCCL keeps it by
/// thread, and would hold back all that this thread calls later. For the sources that include
/// nccl.h.
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

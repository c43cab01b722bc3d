#pragma once

#include <memory>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// Makes NCCL's collectives for this process's ranks. Callers ensure that all ranks make the same
/// calls (`make_nccl_communicator`): a call of a single rank would never end.
///
/// Thread-safety: each local rank from its own thread.
class NcclRunner {
 public:
  virtual ~NcclRunner() = default;

  /// Whether NCCL supports these tensors in this call, of a kind that `runs_on_nccl`.
  virtual bool takes(const CollectiveCall& call) const = 0;
  /// Makes a call of rank `local_rank`. Returns when it has ended for all work that is enqueued on
  /// the rank's stream from then on. The GPUs of one process only enqueue it: the host's
  /// communicator releases their ranks if one of them fails.
  virtual void run(int local_rank, const CollectiveCall& call) = 0;
};

/// The communicator of local rank `local_rank` over `runner`. In every call of a kind that
/// `runs_on_nccl` all ranks first compare their calls, dtypes, shapes and strides over `host`. If
/// all agree and NCCL supports the tensors, NCCL makes the call; otherwise `host` makes it, or
/// reports on every rank which ranks differ. So NCCL never gets a call that it would refuse or that
/// other ranks do not make.
std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRunner> runner,
                                                     int local_rank,
                                                     std::unique_ptr<Communicator> host);

}  // namespace brigade::comm

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "brigade/comm/communicator.h"
#include "brigade/comm/nccl/nccl_clique.h"

namespace brigade::comm {

/// Starts NCCL's collectives for this process's ranks, and waits for them.
///
/// Thread-safety: each local rank from its own thread.
class NcclRunner {
 public:
  virtual ~NcclRunner() = default;

  virtual bool takes(std::span<const at::Tensor> tensors) const = 0;

  /// Calls `start`, which starts the collective `what` of rank `local_rank`. Returns when it has
  /// ended for all work that is enqueued on the rank's stream from then on.
  virtual void run(int local_rank, std::string_view what,
                   const std::function<void(NcclCollectives&)>& start) = 0;
};

/// Enqueues on the rank's stream and returns. For the GPUs of one process, whose ranks are released
/// by the host's communicator if one of them fails.
std::unique_ptr<NcclRunner> make_enqueuing_runner(std::shared_ptr<NcclCollectives> collectives);

/// The communicator of local rank `local_rank` over `runner`. In every reduction and broadcast all
/// ranks first compare their calls, dtypes, shapes and strides over `host`. If all agree and NCCL
/// supports the tensors, NCCL makes the call; otherwise `host` makes it, or reports on every rank
/// which ranks differ. So NCCL never gets a call that it would refuse or that other ranks do not
/// make.
std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRunner> runner,
                                                     int local_rank,
                                                     std::unique_ptr<Communicator> host);

}  // namespace brigade::comm

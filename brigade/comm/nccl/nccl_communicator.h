#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "brigade/comm/communicator.h"
#include "brigade/comm/nccl/nccl_clique.h"

namespace brigade::comm {

/// How collectives of NCCL are started, and waited for, in this process's ranks.
///
/// Thread-safety: each local rank from a thread of its own.
class NcclRunner {
 public:
  virtual ~NcclRunner() = default;

  virtual bool takes(std::span<const at::Tensor> tensors) const = 0;

  /// Calls `start`, which starts a collective of rank `local_rank` called `what`. Returns when it
  /// has ended, for whatever is enqueued on the rank's stream from then on.
  virtual void run(int local_rank, std::string_view what,
                   const std::function<void(NcclCollectives&)>& start) = 0;
};

/// Enqueues on the rank's stream and returns: for the cards of one process, whose ranks are
/// released by the host's communicator when one of them fails.
std::unique_ptr<NcclRunner> make_enqueuing_runner(std::shared_ptr<NcclCollectives> collectives);

/// The communicator of local rank `local_rank` over `runner`. Every reduction and broadcast begins
/// on the host, where all ranks compare their calls, dtypes, shapes and strides. NCCL is given
/// those in which all agree and that it can carry; `host` makes all others, or says in every rank
/// which ranks differ. So NCCL never sees a call that it would refuse, or that other ranks do not
/// join.
std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRunner> runner,
                                                     int local_rank,
                                                     std::unique_ptr<Communicator> host);

}  // namespace brigade::comm

#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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
  /// Makes a call of rank `local_rank`. Returns when it is queued on the calling thread's current
  /// stream, so that it has ended for all work that is queued there from then on; the host does not
  /// wait for the GPU.
  virtual void run(int local_rank, const CollectiveCall& call) = 0;
  /// Waits until the GPU has completed all calls of rank `local_rank`. Throws what one has failed
  /// with.
  virtual void finish(int local_rank) = 0;
  /// Throws what a call has failed with by now.
  virtual void throw_if_failed() = 0;
  /// Rank `local_rank` has agreed to a call, and will not make it or has failed in it: ends the
  /// group and releases the other ranks, unless it has ended before.
  virtual void abandon(int local_rank, const std::string& reason) noexcept = 0;
};

/// The communicator of local rank `local_rank` over `runner`. In every call of a kind that
/// `runs_on_nccl` all ranks first compare their calls, dtypes, shapes and strides over `host`. If
/// all agree and NCCL supports the tensors, NCCL makes the call; otherwise `host` makes it, or
/// reports on every rank which ranks differ. So NCCL never gets a call that it would refuse or that
/// other ranks do not make. `sum_present` compares all of this together with what is present, in
/// one exchange. A call that has failed on the GPU fails every later call, those of `host` too.
std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRunner> runner,
                                                     int local_rank,
                                                     std::unique_ptr<Communicator> host);

/// The state of what was started last for one rank of an `NcclClique`.
struct NcclStatus {
  enum class State {
    kUnderWay,
    kQueued,  ///< the host's part is done, and the GPU's is not
    kDone,
    kFailed
  } state = State::kDone;
  std::string reason = {};  ///< of kFailed: NCCL's text
};

/// This process's ranks of an NCCL group of one or several processes. Nothing here waits or knows
/// the members of the cluster; `NcclCards` and `NcclGroup` add that. Callers ensure that all ranks
/// make the same calls
/// (`make_nccl_communicator`): a call of a single rank would never end. A rank starts a collective
/// only after its previous one is queued. The real implementation is in nccl_library.cpp; tests
/// have a fake that needs no GPU.
///
/// Thread-safety: one thread at a time.
class NcclClique {
 public:
  /// Aborts what is still running.
  virtual ~NcclClique() = default;

  virtual int local_size() const = 0;

  /// Whether NCCL supports these tensors in this call, of a kind that `runs_on_nccl`.
  virtual bool takes(const CollectiveCall& call) const = 0;
  /// Starts a collective of one of this process's ranks, in place, on the rank's current stream,
  /// and returns. If NCCL fails, it throws kUnavailable with NCCL's text and starts nothing.
  virtual void start(int local_rank, const CollectiveCall& call) = 0;

  /// Starts to close the group in good order, after what is queued. Nothing is started from then
  /// on.
  virtual void start_closing() = 0;
  /// The state of what the rank started last; at first, of joining the group.
  virtual NcclStatus status(int local_rank) = 0;
  /// How many of the rank's collectives have ended on the GPU. They end in the order in which they
  /// were started.
  virtual std::uint64_t finished(int local_rank) = 0;

  /// Ends everything that runs, on the GPUs too, on all of this process's ranks. No other call may
  /// follow.
  virtual void abort() noexcept = 0;
};

/// The group that a clique joins, and its ranks there.
struct NcclCliqueOptions {
  std::string id = {};  ///< what `NcclLibrary::make_id` returned in one of the processes
  int world_size = 1;
  int first_rank = 0;                   ///< of this process's ranks, which are consecutive
  std::vector<c10::Device> cards = {};  ///< [local rank]
};

/// The NCCL that this program was built with.
///
/// Thread-safety: one thread at a time.
class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  /// An id of the GPU that is unique on the host, in all processes: its PCI bus id.
  virtual std::string card_id(c10::Device card) const = 0;
  /// Makes the id of a new group, in printable characters, and opens the socket to which its ranks
  /// connect.
  virtual std::string make_id() const = 0;
  /// Starts to join the group as the ranks in `options` and returns; `NcclClique::status` tells
  /// when they have joined.
  virtual std::unique_ptr<NcclClique> start_joining(const NcclCliqueOptions& options) const = 0;
};

/// Null where NCCL is not built in.
std::unique_ptr<NcclLibrary> find_nccl_library();

/// `make_nccl_communicators` (nccl.h) with this NCCL.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    const NcclLibrary& library, const std::vector<int>& cards,
    std::vector<std::unique_ptr<Communicator>> local, std::chrono::milliseconds timeout);

}  // namespace brigade::comm

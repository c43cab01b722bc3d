#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// What was started last for one rank of an `NcclClique`.
struct NcclStatus {
  enum class State { kUnderWay, kDone, kFailed } state = State::kDone;
  std::string reason = {};  ///< of kFailed: NCCL's text
};

/// What NCCL does for this process's ranks. Its callers see to it that all ranks make the same
/// calls
/// (`make_nccl_communicator`): a call of one rank alone would never end.
///
/// Thread-safety: each local rank from a thread of its own.
class NcclCollectives {
 public:
  virtual ~NcclCollectives() = default;

  /// Whether NCCL can carry such tensors.
  virtual bool takes(std::span<const at::Tensor> tensors) const = 0;

  /// Start a collective of one of this process's ranks, in place, on the rank's current stream, and
  /// return. Throw kUnavailable, with NCCL's text, and leave nothing begun.
  virtual void start_all_reduce(int local_rank, std::span<const at::Tensor> tensors,
                                ReduceOp op) = 0;
  virtual void start_broadcast(int local_rank, std::span<const at::Tensor> tensors, int root) = 0;
};

/// This process's ranks of an NCCL group of several processes, as NCCL has them: nothing here
/// waits, and nothing knows of members. `NcclGroup` adds that. A rank starts a collective when its
/// earlier one has ended. The real one is in nccl_library.cpp; tests have one of their own, which
/// needs no card.
///
/// Thread-safety: one thread at a time.
class NcclClique : public NcclCollectives {
 public:
  /// Ends what is still open, as `abort`.
  ~NcclClique() override = default;

  virtual int local_size() const = 0;

  /// Starts to end the group in good order, once no collective is under way.
  virtual void start_closing() = 0;
  /// How far the rank is with that; at first, with becoming a rank.
  virtual NcclStatus status(int local_rank) = 0;

  /// Ends all that is under way, on the cards too, in all of this process's ranks. Nothing is
  /// called behind it.
  virtual void abort() noexcept = 0;
};

/// What a clique is to be.
struct NcclCliqueOptions {
  std::string id = {};  ///< what `make_id` gave in one of the processes
  int world_size = 1;
  int first_rank = 0;                   ///< of this process's ranks, which follow each other
  std::vector<c10::Device> cards = {};  ///< [local rank]
};

/// The NCCL that this program was built with.
///
/// Thread-safety: one thread at a time.
class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  /// What tells the cards of one host apart, in all of its processes: the place on its bus.
  virtual std::string card_id(c10::Device card) const = 0;
  /// A new group's name, in printable characters; opens the socket at which its ranks meet.
  virtual std::string make_id() const = 0;
  /// Starts to become `options`'s ranks and returns; `NcclClique::status` says when they are.
  virtual std::unique_ptr<NcclClique> start_joining(const NcclCliqueOptions& options) const = 0;
};

/// Null where NCCL is not built in.
std::unique_ptr<NcclLibrary> find_nccl_library();

}  // namespace brigade::comm

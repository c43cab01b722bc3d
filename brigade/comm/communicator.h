#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/comm/piggyback.h"

namespace brigade::comm {

/// How the values of several ranks are combined into one.
enum class ReduceOp : std::int16_t {
  kSum,
  kMean,  ///< the sum divided by the number of ranks; floating tensors only
  kMax,
  kMin,
};

/// The operation's name, for messages: "sum", "mean", "max", "min".
std::string_view to_string(ReduceOp op);

/// A collective that was started. Destroy it without waiting only if its result is not needed.
class Work {
 public:
  virtual ~Work() = default;
  /// Waits until this rank's tensors hold the result. On CUDA it may return earlier: work enqueued
  /// on the current stream after this call sees the result. Throws what the collective threw.
  virtual void wait() = 0;
};

/// A kind of collective. Its number is sent between the processes of a job. To add one, see
/// docs/design/communication.md.
enum class Collective : std::int16_t {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kBarrier,
  kMakeBuffer,  ///< `ProcessCommunicator::make_buffer`
};

/// What the code that all collectives share needs to know of one kind.
struct CollectiveTraits {
  /// The name, for messages; of a reduction, one for each ReduceOp.
  std::array<std::string_view, 4> names;
  bool reduces = false;   ///< it combines values with a ReduceOp
  bool has_root = false;  ///< it reads the tensors of one rank and writes those of the others
  /// It takes one tensor, whose shape may differ between ranks, and returns tensors instead of
  /// writing to it.
  bool gathers = false;
  bool runs_on_nccl = false;  ///< NCCL can make it (nccl_library.cpp); otherwise the host does
};

/// [Collective].
inline constexpr std::array kCollectives{
    CollectiveTraits{
        .names = {"all_reduce(sum)", "all_reduce(mean)", "all_reduce(max)", "all_reduce(min)"},
        .reduces = true,
        .runs_on_nccl = true},
    CollectiveTraits{.names = {"broadcast"}, .has_root = true, .runs_on_nccl = true},
    CollectiveTraits{.names = {"all_gather"}, .gathers = true},
    CollectiveTraits{.names = {"barrier"}},
    CollectiveTraits{.names = {"make_buffer"}},
};

static_assert(kCollectives.size() == static_cast<std::size_t>(Collective::kMakeBuffer) + 1);

constexpr const CollectiveTraits& traits_of(Collective kind) {
  return kCollectives[static_cast<std::size_t>(kind)];
}

/// One rank's call of a collective.
///
/// Thread-safety: a value.
struct CollectiveCall {
  Collective kind = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;  ///< of reductions
  int root = 0;                  ///< of those that have one
  std::span<const at::Tensor> tensors = {};
  /// All ranks know already that they make this call with such tensors (`sum_present`).
  bool is_agreed = false;

  const CollectiveTraits& traits() const { return traits_of(kind); }
  /// "all_reduce(sum)", "broadcast", ...; a literal.
  std::string_view name() const;
  /// Why no rank of a group of this size can make the call; nothing: it can.
  std::optional<std::string> find_problem(int world_size) const;
};

/// Collectives between the replicas of one job. Every rank makes the same calls in the same order,
/// with tensors of the same dtypes and, except for `all_gather`, the same shapes. A group of one
/// rank is valid: its calls return immediately.
///
/// What every implementation guarantees for a reduction:
///   - All ranks get the same bits.
///   - The same values on the same ranks and devices give the same bits in every run.
///   - Half and bfloat16 are added in float32 (a mean is also divided in float32) and rounded once.
///
/// On the host additions are made by the ReductionTree of all ranks, so all implementations give
/// the same bits, however the ranks are distributed over processes: `make_local_communicators`,
/// `ProcessCommunicator`, `make_hierarchical_communicators`. NCCL chooses the order itself
/// (`make_nccl_communicators`), so its sums may differ in the last bits.
///
/// On a GPU a call returns when it is queued on the calling thread's current stream, and the
/// results are for what is queued there after it; with NCCL the host does not wait for the GPU
/// (`finish` does).
///
/// Thread-safety: one call at a time per rank; each rank from its own thread.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// Starts to combine `tensors` in place over all ranks. Do not touch them until `Work::wait`
  /// returns. Throws kInvalidArgument if the ranks' dtypes or shapes differ (the message names
  /// both), kAborted or kUnavailable if a peer is lost (naming it), kDeadlineExceeded if a peer
  /// does not make the call in time.
  [[nodiscard]] std::unique_ptr<Work> all_reduce(std::span<const at::Tensor> tensors, ReduceOp op) {
    return start({.kind = Collective::kAllReduce, .op = op, .tensors = tensors});
  }

  /// Starts to copy rank `root`'s tensors into the tensors of all other ranks, in place. Throws
  /// what `all_reduce` throws, and kInvalidArgument if `root` is not a rank.
  [[nodiscard]] std::unique_ptr<Work> broadcast(std::span<const at::Tensor> tensors, int root) {
    return start({.kind = Collective::kBroadcast, .root = root, .tensors = tensors});
  }

  /// Adds up values of which ranks may have different ones, such as gradients: `values[i]` is this
  /// rank's value i, undefined if it has none, and `like[i]` has its shape, dtype and device.
  /// Returns the sums as new tensors; undefined where no rank has a value. Every rank passes as
  /// many values. The ranks agree once on the host, and with NCCL on nothing else.
  std::vector<at::Tensor> sum_present(std::span<const at::Tensor> values,
                                      std::span<const at::Tensor> like);

  /// Returns every rank's tensor, in rank order, as copies on this rank's device. Shapes may
  /// differ; dtypes must be the same.
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) {
    return run({.kind = Collective::kAllGather, .tensors = {&tensor, 1}});
  }

  /// Returns when every rank has called it.
  void barrier() { run({.kind = Collective::kBarrier}); }

  /// Waits until the device has completed this rank's calls too, for code that takes values from
  /// there for good, such as a checkpoint. Throws what a call has failed with after it returned:
  /// its tensors, and whatever was computed from them, are then worthless. Not a collective.
  virtual void finish() {}

  /// From now on calls carry a number of each rank; of each use only one at a time, the latest.
  /// Every rank calls it between the same calls, and may drop the number whenever it likes: from
  /// then on no rank learns the others'. Null, on all ranks, if calls carry nothing: they do so
  /// only between processes (`make_process_communicator`).
  [[nodiscard]] virtual std::shared_ptr<PiggybackNumber> piggyback(PiggybackUse /*use*/,
                                                                   PiggybackNumber::Own /*own*/) {
    return nullptr;
  }

  /// Makes any of the calls above, for communicators that are built on others. Returns the tensors
  /// of a call that gathers.
  std::vector<at::Tensor> run(const CollectiveCall& call);

 private:
  std::unique_ptr<Work> start(const CollectiveCall& call);

  /// Which values are present on at least one rank: [value]. `sum` is the call that the ranks make
  /// of all values, for a communicator that compares it at the same time.
  virtual std::vector<bool> agree_on_present(const CollectiveCall& sum,
                                             const std::vector<bool>& present);

  /// Makes the call; results are complete on return, or on CUDA for later work on the current
  /// stream. Gradients are disabled. The implementation checks the call (`find_problem`) and that
  /// all ranks make the same one.
  virtual std::vector<at::Tensor> execute(const CollectiveCall& call) = 0;
};

/// Dtype and shape, for messages: "Float[2, 3]".
std::string shape_of(const at::Tensor& tensor);

}  // namespace brigade::comm

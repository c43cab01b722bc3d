#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace brigade::comm {

/// How the values of several ranks are combined into one.
enum class ReduceOp {
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

/// Collectives between the replicas of one job. Every rank makes the same calls in the same order,
/// with tensors of the same dtypes and, except for `all_gather`, the same shapes. A group of one
/// rank is valid: its calls return immediately.
///
/// What every implementation guarantees for a reduction:
///   - All ranks get the same bits.
///   - The same values on the same ranks and devices give the same bits in every run.
///   - Half and bfloat16 are added in float32 (a mean is also divided in float32) and rounded once.
///
/// The order of additions is up to the implementation, so two implementations may differ in the
/// last bits. Those that add in rank order say so: `make_local_communicators`,
/// `ProcessCommunicator`. `make_hierarchical_communicators` adds within each process first; NCCL
/// chooses the order itself (`make_nccl_communicators`).
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
  [[nodiscard]] virtual std::unique_ptr<Work> all_reduce(std::span<const at::Tensor> tensors,
                                                         ReduceOp op) = 0;

  /// Starts to copy rank `root`'s tensors into the tensors of all other ranks, in place. Throws
  /// what `all_reduce` throws, and kInvalidArgument if `root` is not a rank.
  [[nodiscard]] virtual std::unique_ptr<Work> broadcast(std::span<const at::Tensor> tensors,
                                                        int root) = 0;

  /// Returns every rank's tensor, in rank order, as copies on this rank's device. Shapes may
  /// differ; dtypes must be the same.
  virtual std::vector<at::Tensor> all_gather(const at::Tensor& tensor) = 0;

  /// Returns when every rank has called it.
  virtual void barrier() = 0;
};

}  // namespace brigade::comm

#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace brigade::comm {

/// How values of several ranks become one.
enum class ReduceOp {
  kSum,
  kMean,  ///< the sum divided by the number of ranks; floating tensors only
  kMax,
  kMin,
};

/// The operation's name, for messages: "sum", "mean", "max", "min".
std::string_view to_string(ReduceOp op);

/// A collective that was started. Destroying it without waiting is allowed only once the result is
/// not needed.
class Work {
 public:
  virtual ~Work() = default;
  /// Returns when this rank's tensors hold the result (on CUDA: when they will, for work enqueued
  /// after this call). Throws what the collective threw.
  virtual void wait() = 0;
};

/// Moves and combines tensors between the replicas of one job. Implementations choose the route;
/// callers say only what must agree afterwards. Every rank makes the same calls in the same order,
/// with tensors of the same dtypes and, but for `all_gather`, the same shapes. A group of one is
/// valid: there every call returns at once.
///
/// Reductions add in rank order, so the result is the same on every rank and in every run, bit for
/// bit. Half and bfloat16 are added in float32, for a mean divided there, and rounded once.
///
/// Thread-safety: one call at a time a rank; each rank from a thread of its own.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// Starts combining `tensors` in place over all ranks. They must stay untouched until the work is
  /// waited for. Throws kInvalidArgument if the ranks' dtypes or shapes differ (naming both),
  /// kAborted or kUnavailable if a peer is lost (naming it), kDeadlineExceeded if one does not
  /// come.
  [[nodiscard]] virtual std::unique_ptr<Work> all_reduce(std::span<const at::Tensor> tensors,
                                                         ReduceOp op) = 0;

  /// Starts copying rank `root`'s tensors into everybody's, in place. Throws as `all_reduce`.
  [[nodiscard]] virtual std::unique_ptr<Work> broadcast(std::span<const at::Tensor> tensors,
                                                        int root) = 0;

  /// Every rank's tensor, in rank order, as copies on this rank's device. Shapes may differ; dtypes
  /// must not.
  virtual std::vector<at::Tensor> all_gather(const at::Tensor& tensor) = 0;

  /// Returns when every rank has come.
  virtual void barrier() = 0;
};

}  // namespace brigade::comm

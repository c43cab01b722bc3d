#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// The route by which values of several devices become one, seen from outside of the replicas: one
/// thread holds every replica's tensor, as an in-graph program or a controller does. (Inside of
/// replicas, where each has its own, that is `Communicator`.) Strategies take one as an option.
/// TensorFlow: tf.distribute.CrossDeviceOps.
///
/// The tensors of one reduction have the same shape and dtype and may lie on different devices. An
/// undefined one counts as zeros in sums and means; where all are undefined, so is the result.
/// Inputs are not changed; results never share memory with them or with one another. Additions
/// happen in an order that depends on the number of tensors alone, so results repeat bit for bit.
/// Half and bfloat16 are added in float32, for a mean divided there, and rounded once.
///
/// Thread-safety: const calls may run at the same time. On CUDA the calls work on the calling
/// thread's current streams, behind which the inputs must be ready.
class CrossDeviceOps {
 public:
  virtual ~CrossDeviceOps() = default;
  virtual std::string_view name() const = 0;

  /// Combines `values`, one a replica, into one result for each of `destinations`. kMean divides by
  /// the number of values, undefined ones included. Throws kInvalidArgument for no values, no
  /// destinations, different shapes or dtypes, the mean of integers, and undefined values of a
  /// maximum or minimum.
  std::vector<at::Tensor> reduce(ReduceOp op, std::span<const at::Tensor> values,
                                 std::span<const c10::Device> destinations) const;

  /// Many reductions, which may travel together: `values[i]` has one tensor a replica, and the i-th
  /// result one a destination. Throws as `reduce`.
  std::vector<std::vector<at::Tensor>> batch_reduce(
      ReduceOp op, std::span<const std::vector<at::Tensor>> values,
      std::span<const c10::Device> destinations) const;

  /// A copy of `value` on each destination. Throws kInvalidArgument for no destinations and an
  /// undefined value.
  std::vector<at::Tensor> broadcast(const at::Tensor& value,
                                    std::span<const c10::Device> destinations) const;

 private:
  /// One tensor a replica in, at least one, all defined; one new tensor a destination out.
  virtual std::vector<at::Tensor> combine(ReduceOp op, std::span<const at::Tensor> values,
                                          std::span<const c10::Device> destinations) const = 0;
  /// Into how many flat tensors a batch may be packed; 0: not at all.
  virtual int num_buckets() const { return 0; }
};

struct ReductionToOneDeviceOptions {
  /// Where to add up. Unset: on the first destination.
  std::optional<c10::Device> reduce_to_device = std::nullopt;
};

/// Copies every tensor to one device, adds them there in replica order, and copies the result to
/// wherever it is wanted. The choice for a controller. TensorFlow: ReductionToOneDevice.
class ReductionToOneDevice final : public CrossDeviceOps {
 public:
  explicit ReductionToOneDevice(ReductionToOneDeviceOptions options = {}) : options_(options) {}
  std::string_view name() const override { return "reduction_to_one_device"; }

 private:
  std::vector<at::Tensor> combine(ReduceOp op, std::span<const at::Tensor> values,
                                  std::span<const c10::Device> destinations) const override;
  ReductionToOneDeviceOptions options_;
};

struct HierarchicalCopyOptions {
  /// A batch travels as this many flat tensors.
  int num_buckets = 1;
  /// Replicas that have quick ways among each other: half of an eight-card machine. Consecutive
  /// replicas form a group.
  int group_size = 4;
};

/// Adds up within each group of neighboring devices first, then across groups, and copies the
/// result back the same way, so that less crosses the slow ways. TensorFlow:
/// HierarchicalCopyAllReduce.
class HierarchicalCopyAllReduce final : public CrossDeviceOps {
 public:
  /// Throws kInvalidArgument for options below 1.
  explicit HierarchicalCopyAllReduce(HierarchicalCopyOptions options = {});
  std::string_view name() const override { return "hierarchical_copy"; }

 private:
  std::vector<at::Tensor> combine(ReduceOp op, std::span<const at::Tensor> values,
                                  std::span<const c10::Device> destinations) const override;
  int num_buckets() const override { return options_.num_buckets; }
  HierarchicalCopyOptions options_;
};

struct AllReduceOptions {
  /// A batch travels as this many flat tensors.
  int num_buckets = 1;
};

/// Every device adds up its share of the elements and hands it to the others: all work and send
/// alike. A strategy of several cards that is given no `CrossDeviceOps` does the same from inside
/// of its replicas, through NCCL where that is built in. TensorFlow: AllReduce, NcclAllReduce.
class AllReduce final : public CrossDeviceOps {
 public:
  /// Throws kInvalidArgument for options below 1.
  explicit AllReduce(AllReduceOptions options = {});
  std::string_view name() const override { return "all_reduce"; }

 private:
  std::vector<at::Tensor> combine(ReduceOp op, std::span<const at::Tensor> values,
                                  std::span<const c10::Device> destinations) const override;
  int num_buckets() const override { return options_.num_buckets; }
  AllReduceOptions options_;
};

}  // namespace brigade::comm

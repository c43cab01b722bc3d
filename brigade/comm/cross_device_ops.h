#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "brigade/comm/communicator.h"

namespace brigade::comm {

/// How the values of several devices are combined in the cross-replica context, where one thread
/// holds every replica's tensor, as an in-graph program or a controller does. (Inside a replica,
/// which holds only its own tensor, `Communicator` does this.) Strategies take one as an option.
/// TensorFlow: tf.distribute.CrossDeviceOps.
///
/// The tensors of one reduction have the same shape and dtype and may be on different devices. An
/// undefined tensor counts as zeros in sums and means; if all are undefined, so is the result.
/// Inputs are not changed. Results never share memory with the inputs or with each other. Additions
/// are made by the ReductionTree of the number of tensors, so all ops give the same bits. Half and
/// bfloat16 are added in float32 (a mean is also divided in float32) and rounded once.
///
/// Thread-safety: const calls may run at the same time. On CUDA the calls work on the calling
/// thread's current streams, on which the inputs must be ready.
class CrossDeviceOps {
 public:
  virtual ~CrossDeviceOps() = default;
  virtual std::string_view name() const = 0;

  /// Combines `values`, one per replica, and returns one result for each of `destinations`. kMean
  /// divides by the number of values, undefined ones included. Throws kInvalidArgument for no
  /// values, no destinations, different shapes or dtypes, the mean of integers, and undefined
  /// values of a maximum or minimum.
  std::vector<at::Tensor> reduce(ReduceOp op, std::span<const at::Tensor> values,
                                 std::span<const c10::Device> destinations) const;

  /// Several reductions, which may be sent together. `values[i]` has one tensor per replica; the
  /// i-th result has one per destination. Throws what `reduce` throws.
  std::vector<std::vector<at::Tensor>> batch_reduce(
      ReduceOp op, std::span<const std::vector<at::Tensor>> values,
      std::span<const c10::Device> destinations) const;

  /// Returns a copy of `value` on each destination. Throws kInvalidArgument for no destinations and
  /// an undefined value.
  std::vector<at::Tensor> broadcast(const at::Tensor& value,
                                    std::span<const c10::Device> destinations) const;

 private:
  /// Takes one tensor per replica, of which at least one is defined; returns one new tensor per
  /// destination.
  virtual std::vector<at::Tensor> combine(ReduceOp op, std::span<const at::Tensor> values,
                                          std::span<const c10::Device> destinations) const = 0;
  /// Into how many buckets (flat tensors) `batch_reduce` divides the values of each dtype; 0: every
  /// value is reduced by itself.
  virtual int num_buckets() const { return 0; }
};

/// Options of ReductionToOneDevice.
struct ReductionToOneDeviceOptions {
  /// Where to add up. Unset: on the first destination.
  std::optional<c10::Device> reduce_to_device = std::nullopt;
};

/// Copies every tensor to one device, adds them there, and copies the result to the
/// destinations. The default of a controller. TensorFlow: ReductionToOneDevice.
class ReductionToOneDevice final : public CrossDeviceOps {
 public:
  explicit ReductionToOneDevice(ReductionToOneDeviceOptions options = {}) : options_(options) {}
  std::string_view name() const override { return "reduction_to_one_device"; }

 private:
  std::vector<at::Tensor> combine(ReduceOp op, std::span<const at::Tensor> values,
                                  std::span<const c10::Device> destinations) const override;
  ReductionToOneDeviceOptions options_;
};

/// Options of HierarchicalCopyAllReduce.
struct HierarchicalCopyOptions {
  /// The number of buckets (flat tensors) in which a batch is sent. TensorFlow: num_packs.
  int num_buckets = 1;
  /// The number of replicas with fast links to each other, such as half of an eight-GPU machine.
  /// Consecutive replicas form a group.
  int group_size = 4;
};

/// Adds within each group of neighboring devices first, whole subtrees of the ReductionTree, then
/// across groups, and copies the result back the same way, so that less data crosses slow links
/// (least if the size of groups is a power of two, so that each is one subtree). TensorFlow:
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

/// Options of AllReduce.
struct AllReduceOptions {
  /// The number of buckets (flat tensors) in which a batch is sent. TensorFlow: num_packs.
  int num_buckets = 1;
};

/// Every device adds its shard of the elements and copies the sums to the others, so all devices
/// do the same amount of work. A strategy of several GPUs without `CrossDeviceOps` does the same
/// inside its replicas, through NCCL if that is built in. TensorFlow: AllReduce, NcclAllReduce.
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

#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <ostream>

namespace brigade::layers {

/// `torch::nn::BatchNorm1d`, `2d` and `3d` in one, whose statistics in training mode are those of
/// the global batch, over all replicas and workers: any number of replicas then gives the same
/// results as one replica with the whole batch. Takes libtorch's options and has its parameters and
/// buffers (weight, bias, running_mean, running_var, num_batches_tracked), which are equal in every
/// replica. Use it if per-replica batches are so small that their own statistics are noise; it
/// costs one collective of all replicas per layer in forward and one in backward. In evaluation,
/// with one replica and outside of `Strategy::run` it is libtorch's batch norm, bit for bit.
/// PyTorch: SyncBatchNorm; Keras: BatchNormalization(synchronized=True).
///
/// In a replica in training mode `forward` is a collective, even for a replica without examples,
/// and so is its backward. It throws kInvalidArgument for inputs that are not [N, num_features,
/// ...], and if the global batch has one value per channel, which has no variance.
///
/// Thread-safety: as of other modules, each replica uses its own.
class SyncBatchNormImpl : public torch::nn::BatchNormImplBase<0, SyncBatchNormImpl> {
 public:
  using BatchNormImplBase::BatchNormImplBase;

  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const at::Tensor& input) override;

 private:
  void move_running_statistics(const at::Tensor& mean, const at::Tensor& variance);
};

/// See `SyncBatchNormImpl`.
TORCH_MODULE(SyncBatchNorm);

/// Copies `module`'s layers to a new Sequential, with each BatchNorm1d, 2d and 3d replaced by a
/// SyncBatchNorm with the same options, values and mode. Other layers are shared with `module`.
/// Throws kInvalidArgument for a layer that has a batch norm as a member; declare that member as
/// SyncBatchNorm instead. PyTorch: SyncBatchNorm.convert_sync_batchnorm.
torch::nn::Sequential convert_sync_batch_norm(const torch::nn::Sequential& module);

}  // namespace brigade::layers

#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <ostream>

namespace brigade::layers {

/// `torch::nn::BatchNorm1d`, `2d` and `3d` in one, whose statistics in training mode are those of
/// the whole global batch, over all replicas and workers: any number of replicas then trains what
/// one trains on the whole batch. Takes libtorch's options and has its parameters and buffers
/// (weight, bias, running_mean, running_var, num_batches_tracked), which move alike in every
/// replica. Use it where shares are so small that their own statistics are noise; it costs a
/// meeting of all replicas a layer in forward and in backward. In evaluation, with one replica and
/// outside of `Strategy::run` it is libtorch's batch norm, bit for bit. PyTorch: SyncBatchNorm;
/// Keras: BatchNormalization(synchronized=True).
///
/// In a replica in training mode `forward` is a collective, also for a share without examples, and
/// so is backward from its result. It throws kInvalidArgument for inputs that are not
/// [N, num_features, ...], and where the global batch has one value a channel, which has no
/// variance.
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

/// `module`'s layers in a new Sequential, where a SyncBatchNorm with the same options, values and
/// mode stands for each BatchNorm1d, 2d and 3d. Other layers are shared with `module`. Throws
/// kInvalidArgument for a layer that keeps a batch norm as a member of its own, which can only be
/// declared as SyncBatchNorm there. PyTorch: SyncBatchNorm.convert_sync_batchnorm.
torch::nn::Sequential convert_sync_batch_norm(const torch::nn::Sequential& module);

}  // namespace brigade::layers

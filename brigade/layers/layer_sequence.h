#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>

namespace brigade::layers {

/// A torch::nn::Sequential that a pipeline can be cut at: it announces each of its layers by name
/// (`comm::begin_layer`). Its variables have the names of a Sequential, so both read each other's
/// checkpoints. Under other strategies it computes what a Sequential computes.
///
///   auto net = std::make_shared<layers::LayerSequence>();
///   net->push_back("conv", torch::nn::Conv2d(1, 8, 3));
///   net->push_back("flatten", torch::nn::Flatten());
///   net->push_back("dense", torch::nn::Linear(8 * 26 * 26, 10));
///
/// Layers that are pushed without a name are called "0", "1", ... Each layer takes and returns one
/// tensor.
///
/// Thread-safety: as a module: one thread at a time.
class LayerSequence : public torch::nn::SequentialImpl {
 public:
  using SequentialImpl::SequentialImpl;

  at::Tensor forward(const at::Tensor& inputs);
};

}  // namespace brigade::layers

#pragma once

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <memory>

#include "benchmarks/bare_loop.h"
#include "benchmarks/workload.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"

namespace brigade::benchmarks {

/// The MNIST CNN in libtorch's own layers and operations, as its users write it.
class PlainMnistCnn : public torch::nn::Module {
 public:
  PlainMnistCnn() {
    register_module("conv1", conv1_);
    register_module("conv2", conv2_);
    register_module("dense1", dense1_);
    register_module("dense2", dense2_);
  }

  at::Tensor forward(const at::Tensor& images) {
    auto x = at::max_pool2d(at::relu(conv1_(images)), 2);
    x = at::max_pool2d(at::relu(conv2_(x)), 2);
    return dense2_(at::relu(dense1_(x.flatten(1))));
  }

 private:
  torch::nn::Conv2d conv1_{torch::nn::Conv2dOptions(1, 32, 5).padding(2)};
  torch::nn::Conv2d conv2_{torch::nn::Conv2dOptions(32, 64, 5).padding(2)};
  torch::nn::Linear dense1_{3136, 1024}, dense2_{1024, 10};
};

inline models::MlpOptions mlp_options(Workload workload) {
  const std::int64_t width = mlp_width(workload);
  return {.inputs = width, .hidden = {width, width, width}, .classes = width};
}

template <class Model>
BareLoop make_bare_loop(Workload workload, std::shared_ptr<Model> model, std::int64_t batch_size) {
  auto parameters = model->parameters();
  auto forward = [model](const at::Tensor& features) { return model->forward(features); };
  return BareLoop(workload, std::move(forward), std::move(parameters),
                  make_batches(workload, batch_size));
}

/// A bare loop over the same model that our strategies train.
inline BareLoop make_bare_loop(Workload workload, std::int64_t batch_size) {
  if (workload != Workload::kMnistCnn) {
    return make_bare_loop(workload, std::make_shared<models::Mlp>(mlp_options(workload)),
                          batch_size);
  }
  return make_bare_loop(workload, std::make_shared<models::MnistCnn>(), batch_size);
}

}  // namespace brigade::benchmarks

#include "brigade/models/mnist_cnn.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "brigade/layers/conv_pool_relu.h"
#include "brigade/models/mnist_images.h"

namespace brigade::models {
namespace {

constexpr std::int64_t kFlattened = 64 * (kMnistSide / 4) * (kMnistSide / 4);

const MnistCnnOptions& checked(const MnistCnnOptions& options) {
  check_mnist_options("MnistCnn", options.classes, options.dropout);
  return options;
}

torch::nn::Conv2dOptions same_5x5(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2dOptions(in, out, 5).padding(2);
}

}  // namespace

MnistCnn::MnistCnn(const MnistCnnOptions& options)
    : Classifier("MnistCnn"),
      dropout_(checked(options).dropout),
      conv1_(register_module("conv1", std::make_shared<torch::nn::Conv2dImpl>(same_5x5(1, 32)))),
      conv2_(register_module("conv2", std::make_shared<torch::nn::Conv2dImpl>(same_5x5(32, 64)))),
      dense1_(register_module("dense1", std::make_shared<torch::nn::LinearImpl>(kFlattened, 1024))),
      dense2_(register_module("dense2",
                              std::make_shared<torch::nn::LinearImpl>(1024, options.classes))) {}

at::Tensor MnistCnn::forward(const at::Tensor& images) {
  auto x = mnist_planes("MnistCnn", images);
  x = layers::conv_pool_relu(x, conv1_->weight, conv1_->bias);
  x = layers::conv_pool_relu(x, conv2_->weight, conv2_->bias);
  x = dense1_->forward(x.flatten(1));
  at::relu_(x);  // in place: nothing else uses the product, and its backward does not need it
  if (dropout_ > 0.0) x = at::dropout(x, dropout_, is_training());
  return dense2_->forward(x);
}

}  // namespace brigade::models

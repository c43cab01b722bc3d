#include "brigade/models/mnist_cnn.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/conv_pool_relu.h"

namespace brigade::models {
namespace {

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kFlattened = 64 * (kSide / 4) * (kSide / 4);

const MnistCnnOptions& checked(const MnistCnnOptions& options) {
  if (options.classes < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("MnistCnn: classes is ", options.classes, "; expected 1 or more"));
  }
  if (!(options.dropout >= 0.0 && options.dropout < 1.0)) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("MnistCnn: dropout is ", options.dropout,
                              "; expected a share from 0 up to, not including, 1"));
  }
  return options;
}

torch::nn::Conv2dOptions same_5x5(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2dOptions(in, out, 5).padding(2);
}

// [N, 1, 28, 28] with the strides of a plain contiguous tensor. An image of one channel can carry
// the strides of channels_last and be contiguous all the same; the convolution would then answer in
// channels_last, and every operation after it would take a slower way.
at::Tensor planes(const at::Tensor& images) {
  if (!images.defined()) {
    throw Error(ErrorCode::kInvalidArgument, "MnistCnn: images are an undefined tensor");
  }
  const bool has_channel = images.dim() == 4 && images.size(1) == 1;
  const bool fits =
      (has_channel || images.dim() == 3) && images.size(-1) == kSide && images.size(-2) == kSide;
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("MnistCnn: images have shape ", images.sizes(),
                              "; expected [N, 1, 28, 28] or [N, 28, 28]"));
  }
  const auto plain = has_channel ? images.squeeze(1) : images;
  return plain.contiguous().unsqueeze(1);
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
  auto x = planes(images);
  x = layers::conv_pool_relu(x, conv1_->weight, conv1_->bias);
  x = layers::conv_pool_relu(x, conv2_->weight, conv2_->bias);
  x = dense1_->forward(x.flatten(1));
  at::relu_(x);  // nothing else holds the product, and its backward does not need it
  if (dropout_ > 0.0) x = at::dropout(x, dropout_, is_training());
  return dense2_->forward(x);
}

}  // namespace brigade::models

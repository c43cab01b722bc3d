#include "brigade/models/mnist_cnn.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <optional>

#include "brigade/base/error.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/layers/dense_product.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/fused_pooling.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/models/model_scope.h"
#include "brigade/variables/get_variable.h"

namespace brigade::models {
namespace {

constexpr std::int64_t kMnistSide = 28;
constexpr std::int64_t kFlattened = 64 * (kMnistSide / 4) * (kMnistSide / 4);

// Images with one channel may have the strides of channels_last and still be contiguous. The
// convolution would then return channels_last, and all following operations would be slower.
at::Tensor mnist_planes(const char* model, const at::Tensor& images) {
  if (!images.defined()) {
    refuse(model, ": images are an undefined tensor");
  }
  const bool has_channel = images.dim() == 4 && images.size(1) == 1;
  const bool fits = (has_channel || images.dim() == 3) && images.size(-1) == kMnistSide &&
                    images.size(-2) == kMnistSide;
  if (!fits) {
    refuse(model, ": images have shape ", images.sizes(),
           "; expected [N, 1, 28, 28] or [N, 28, 28]");
  }
  const auto plain = has_channel ? images.squeeze(1) : images;
  return plain.contiguous().unsqueeze(1);
}

void check_mnist_options(const char* model, std::int64_t classes, double dropout) {
  if (classes < 1) {
    refuse(model, ": classes is ", classes, "; expected 1 or more");
  }
  if (!(dropout >= 0.0 && dropout < 1.0)) {
    refuse(model, ": dropout is ", dropout, "; expected a rate from 0 up to, but not including, 1");
  }
}

const MnistCnnOptions& checked(const MnistCnnOptions& options) {
  check_mnist_options("MnistCnn", options.classes, options.dropout);
  layers::check_end_points("mnist_cnn", options.end_points, {"conv1", "conv2", "dense1", "dense2"});
  return options;
}

torch::nn::Conv2dOptions same_5x5(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2dOptions(in, out, 5).padding(2);
}

const variables::VariableOptions& zeros() {
  static const variables::VariableOptions options{.initializer = variables::zeros_initializer()};
  return options;
}

// Convolution, pooling and relu are fused: see docs/design/mnist-cnn-speed.md.
at::Tensor conv_and_pool(const at::Tensor& images, std::int64_t filters, const std::string& name) {
  const layers::OpenLayer layer(name, "conv2d", std::nullopt);
  const at::Tensor x = layer.place("Conv2D", images);
  const at::Tensor kernel =
      variables::get_value("kernel", {{filters, x.size(1), 5, 5}}, {}, x.device());
  return layers::conv_pool_relu(x, kernel,
                                variables::get_value("bias", {{filters}}, zeros(), x.device()));
}

at::Tensor dense(const at::Tensor& inputs, std::int64_t units, const std::string& name) {
  const layers::OpenLayer layer(name, "dense", std::nullopt);
  const at::Tensor x = layer.place("MatMul", inputs);
  const at::Tensor kernel = variables::get_value("kernel", {{units, x.size(1)}}, {}, x.device());
  return layers::dense_product(x, kernel,
                               variables::get_value("bias", {{units}}, zeros(), x.device()));
}

}  // namespace

MnistCnn::MnistCnn(const MnistCnnOptions& options)
    : Classifier("MnistCnn"),
      dropout_(checked(options).dropout),
      end_points_(options.end_points),
      conv1_(register_module("conv1", std::make_shared<torch::nn::Conv2dImpl>(same_5x5(1, 32)))),
      conv2_(register_module("conv2", std::make_shared<torch::nn::Conv2dImpl>(same_5x5(32, 64)))),
      dense1_(register_module("dense1", std::make_shared<torch::nn::LinearImpl>(kFlattened, 1024))),
      dense2_(register_module("dense2",
                              std::make_shared<torch::nn::LinearImpl>(1024, options.classes))) {}

at::Tensor MnistCnn::forward(const at::Tensor& images) {
  layers::EndPoints points;
  auto x = mnist_planes("MnistCnn", images);
  const auto record = [&](const char* layer) {
    if (!end_points_.empty()) points.set(layer, x);
  };
  x = comm::begin_layer("conv1", x);
  x = layers::conv_pool_relu(x, conv1_->weight, conv1_->bias);
  record("conv1");
  x = comm::begin_layer("conv2", x);
  x = layers::conv_pool_relu(x, conv2_->weight, conv2_->bias);
  record("conv2");
  x = comm::begin_layer("dense1", x);
  x = layers::dense_product(x.flatten(1), dense1_->weight, dense1_->bias);
  at::relu_(x);  // in place: nothing else uses the product, and its backward does not need it
  record("dense1");
  if (dropout_ > 0.0) x = at::dropout(x, dropout_, is_training());
  x = dense2_->forward(comm::begin_layer("dense2", x));
  record("dense2");
  layers::add_end_points("mnist_cnn", points, end_points_);
  return x;
}

at::Tensor mnist_cnn(const at::Tensor& images, const MnistCnnFunctionOptions& options) {
  check_mnist_options("mnist_cnn", options.classes, options.dropout);
  const ModelScope scope(options.scope, options.reuse);
  at::Tensor net = comm::begin_layer("conv_1", mnist_planes("mnist_cnn", images));
  net = conv_and_pool(net, 32, "conv_1");
  net = conv_and_pool(comm::begin_layer("conv_2", net), 64, "conv_2");
  net = comm::begin_layer("dense_1", net);
  net = dense(net.view({-1, kFlattened}), 1024, "dense_1");
  at::relu_(net);  // in place: nothing else uses the product, and its backward does not need it
  if (options.dropout > 0.0) {
    net = at::dropout(net, options.dropout, options.mode == variables::Mode::kTraining);
  }
  return dense(comm::begin_layer("dense_2", net), options.classes, "dense_2");
}

}  // namespace brigade::models

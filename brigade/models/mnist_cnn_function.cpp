#include "brigade/models/mnist_cnn_function.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>

#include <optional>

#include "brigade/layers/conv_pool_relu.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/models/mnist_images.h"
#include "brigade/models/model_scope.h"
#include "brigade/variables/get_variable.h"

namespace brigade::models {
namespace {

using variables::get_value;

constexpr std::int64_t kFlattenedFeatures = 64 * (kMnistSide / 4) * (kMnistSide / 4);

const variables::VariableOptions& zeros() {
  static const variables::VariableOptions options{.initializer = variables::zeros_initializer()};
  return options;
}

// Convolution, pooling and relu are fused: see docs/design/mnist-cnn-speed.md.
at::Tensor conv_and_pool(const at::Tensor& images, std::int64_t filters, const std::string& name) {
  const layers::OpenLayer layer(name, "conv2d", std::nullopt);
  const at::Tensor x = layer.place("Conv2D", images);
  const at::Tensor kernel = get_value("kernel", {{filters, x.size(1), 5, 5}}, {}, x.device());
  return layers::conv_pool_relu(x, kernel, get_value("bias", {{filters}}, zeros(), x.device()));
}

at::Tensor dense(const at::Tensor& inputs, std::int64_t units, const std::string& name) {
  const layers::OpenLayer layer(name, "dense", std::nullopt);
  const at::Tensor x = layer.place("MatMul", inputs);
  const at::Tensor kernel = get_value("kernel", {{units, x.size(1)}}, {}, x.device());
  return at::linear(x, kernel, get_value("bias", {{units}}, zeros(), x.device()));
}

at::Tensor core_model(const at::Tensor& images, const MnistCnnFunctionOptions& options) {
  at::Tensor net = mnist_planes("mnist_cnn", images);
  net = conv_and_pool(net, 32, "conv_1");
  net = conv_and_pool(net, 64, "conv_2");
  net = dense(net.view({-1, kFlattenedFeatures}), 1024, "dense_1");
  at::relu_(net);  // in place: nothing else uses the product, and its backward does not need it
  if (options.dropout > 0.0) {
    net = at::dropout(net, options.dropout, options.mode == variables::Mode::kTraining);
  }
  return dense(net, options.classes, "dense_2");
}

}  // namespace

at::Tensor mnist_cnn(const at::Tensor& images, const MnistCnnFunctionOptions& options) {
  check_mnist_options("mnist_cnn", options.classes, options.dropout);
  const ModelScope scope(options.scope, options.reuse);
  return core_model(images, options);
}

}  // namespace brigade::models

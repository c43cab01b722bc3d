#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

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

/// A unit of ResNet-50, as in torchvision.
class PlainBottleneck : public torch::nn::Module {
 public:
  PlainBottleneck(std::int64_t inputs, std::int64_t channels, std::int64_t stride)
      : reduce_(convolution(inputs, channels, 1, 1)),
        middle_(convolution(channels, channels, 3, stride)),
        expand_(convolution(channels, 4 * channels, 1, 1)) {
    register_module("reduce", reduce_);
    register_module("middle", middle_);
    register_module("expand", expand_);
    if (inputs == 4 * channels) return;
    shortcut_ = register_module("shortcut", convolution(inputs, 4 * channels, 1, stride));
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor branch =
        expand_->forward(at::relu(middle_->forward(at::relu(reduce_->forward(x)))));
    return at::relu(branch + (shortcut_.is_empty() ? x : shortcut_->forward(x)));
  }

  /// With batch norm.
  static torch::nn::Sequential convolution(std::int64_t inputs, std::int64_t outputs,
                                           std::int64_t size, std::int64_t stride) {
    const auto options = torch::nn::Conv2dOptions(inputs, outputs, size)
                             .stride(stride)
                             .padding(size / 2)
                             .bias(false);
    return torch::nn::Sequential(torch::nn::Conv2d(options), torch::nn::BatchNorm2d(outputs));
  }

 private:
  torch::nn::Sequential reduce_, middle_, expand_;
  torch::nn::Sequential shortcut_{nullptr};
};

/// ResNet-50 in libtorch's own layers: channels last, in bfloat16 where autocast has it so.
class PlainResNet50 : public torch::nn::Module {
 public:
  PlainResNet50() {
    register_module("stem", stem_);
    std::int64_t inputs = 64;
    for (const auto& [channels, units, stride] : kBlocks) {
      for (std::int64_t unit = 0; unit < units; ++unit) {
        units_.push_back(register_module(
            "unit" + std::to_string(units_.size()),
            std::make_shared<PlainBottleneck>(inputs, channels, unit == 0 ? stride : 1)));
        inputs = 4 * channels;
      }
    }
    register_module("classifier", classifier_);
  }

  at::Tensor forward(const at::Tensor& images) {
    const Autocast autocast(images.device().type());
    at::Tensor x = at::max_pool2d(at::relu(stem_->forward(images)), 3, 2, 1);
    for (const auto& unit : units_) x = unit->forward(x);
    return classifier_(x.mean({2, 3})).to(at::kFloat);
  }

 private:
  class Autocast {
   public:
    explicit Autocast(c10::DeviceType device) : device_(device) {
      at::autocast::set_autocast_dtype(device_, at::kBFloat16);
      at::autocast::set_autocast_enabled(device_, true);
    }
    ~Autocast() {
      at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(device_, false);
    }
    Autocast(const Autocast&) = delete;
    Autocast& operator=(const Autocast&) = delete;

   private:
    const c10::DeviceType device_;
  };

  /// Channels, units, and the stride of the first unit.
  static constexpr std::array<std::array<std::int64_t, 3>, 4> kBlocks = {
      {{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}}};

  torch::nn::Sequential stem_ = PlainBottleneck::convolution(3, 64, 7, 2);
  std::vector<std::shared_ptr<PlainBottleneck>> units_;
  torch::nn::Linear classifier_{2048, 1000};
};

inline models::MlpOptions mlp_options(Workload workload) {
  const std::int64_t width = mlp_width(workload);
  return {.inputs = width, .hidden = {width, width, width}, .classes = width};
}

template <class Model>
BareLoop make_bare_loop(Workload workload, std::shared_ptr<Model> model, std::int64_t batch_size,
                        c10::Device device = c10::kCPU) {
  model->to(device);
  auto parameters = model->parameters();
  auto forward = [model](const at::Tensor& features) { return model->forward(features); };
  return BareLoop(workload, std::move(forward), std::move(parameters),
                  make_batches(workload, batch_size, device));
}

/// A bare loop over the same model that our strategies train.
inline BareLoop make_bare_loop(Workload workload, std::int64_t batch_size,
                               c10::Device device = c10::kCPU) {
  if (workload != Workload::kMnistCnn) {
    return make_bare_loop(workload, std::make_shared<models::Mlp>(mlp_options(workload)),
                          batch_size, device);
  }
  return make_bare_loop(workload, std::make_shared<models::MnistCnn>(), batch_size, device);
}

}  // namespace brigade::benchmarks

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/// What every program trains: one of these models on synthetic batches in memory.
namespace brigade::benchmarks {

enum class Workload {
  kMnistCnn,  ///< The tutorials' network with Adam at 1e-3; 28x28 images.
  kMlp64,     ///< Four linear layers of 64 with plain SGD at 1e-3: small, so that what a step costs
              ///< beyond it shows.
  kMlp256,    ///< The same with layers of 256: 1 MiB of gradients for a short step, so that what
              ///< processes cost that exchange them shows.
  kResNet50,  ///< With Adam at 1e-3; 224x224 images and 1000 classes. For GPUs.
};

inline Workload parse_workload(const std::string& name) {
  if (name == "mnist_cnn") return Workload::kMnistCnn;
  if (name == "mlp64") return Workload::kMlp64;
  if (name == "mlp256") return Workload::kMlp256;
  if (name == "resnet50") return Workload::kResNet50;
  throw std::invalid_argument("--model is '" + name +
                              "'; expected mnist_cnn, mlp64, mlp256 or resnet50");
}

inline std::int64_t default_batch(Workload workload) {
  switch (workload) {
    case Workload::kMnistCnn:
      return 128;
    case Workload::kMlp64:
      return 32;
    case Workload::kMlp256:
      return 64;
    case Workload::kResNet50:
      return 256;
  }
  throw std::logic_error("default_batch: no such workload");
}

/// Inputs, units of every layer and classes of the two perceptrons.
inline std::int64_t mlp_width(Workload workload) {
  return workload == Workload::kMlp256 ? 256 : 64;
}

struct Batch {
  at::Tensor features;
  at::Tensor labels;
};

inline bool has_images(Workload workload) {
  return workload == Workload::kMnistCnn || workload == Workload::kResNet50;
}

/// The batches that one replica goes round, on the device.
inline std::vector<Batch> make_batches(Workload workload, std::int64_t batch_size,
                                       c10::Device device = c10::kCPU) {
  constexpr int kBatches = 8;
  std::vector<Batch> batches;
  for (int i = 0; i < kBatches; ++i) {
    if (workload == Workload::kResNet50) {
      batches.push_back(
          {at::rand({batch_size, 3, 224, 224}, device).contiguous(at::MemoryFormat::ChannelsLast),
           at::randint(1000, {batch_size}, at::TensorOptions(at::kLong).device(device))});
    } else if (workload == Workload::kMnistCnn) {
      batches.push_back(
          {at::rand({batch_size, 1, 28, 28}, device),
           at::randint(10, {batch_size}, at::TensorOptions(at::kLong).device(device))});
    } else {
      const std::int64_t width = mlp_width(workload);
      batches.push_back(
          {at::rand({batch_size, width}, device),
           at::randint(width, {batch_size}, at::TensorOptions(at::kLong).device(device))});
    }
  }
  return batches;
}

}  // namespace brigade::benchmarks

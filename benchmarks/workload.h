#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/// What every program trains: one of two models on synthetic batches that lie in memory.
namespace brigade::benchmarks {

enum class Workload {
  kMnistCnn,  ///< The tutorials' network with Adam at 1e-3; 28x28 images.
  kMlp64,     ///< Four linear layers of 64 with plain SGD at 1e-3: small, so that what a step costs
              ///< beyond it shows.
};

inline Workload parse_workload(const std::string& name) {
  if (name == "mnist_cnn") return Workload::kMnistCnn;
  if (name == "mlp64") return Workload::kMlp64;
  throw std::invalid_argument("--model is '" + name + "'; expected mnist_cnn or mlp64");
}

inline std::int64_t default_batch(Workload workload) {
  return workload == Workload::kMnistCnn ? 128 : 32;
}

struct Batch {
  at::Tensor features;
  at::Tensor labels;
};

/// The batches that one replica goes round.
inline std::vector<Batch> make_batches(Workload workload, std::int64_t batch_size) {
  constexpr int kBatches = 8;
  std::vector<Batch> batches;
  for (int i = 0; i < kBatches; ++i) {
    if (workload == Workload::kMnistCnn) {
      batches.push_back(
          {at::rand({batch_size, 1, 28, 28}), at::randint(10, {batch_size}, at::kLong)});
    } else {
      batches.push_back({at::rand({batch_size, 64}), at::randint(64, {batch_size}, at::kLong)});
    }
  }
  return batches;
}

}  // namespace brigade::benchmarks

#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"

namespace brigade::distribute {

/// For tests: `replicas` logical CPUs that may share cores, and a timeout for waits.
inline MirroredOptions cpus(int replicas, std::uint64_t seed = 0) {
  MirroredOptions options{
      .allow_oversubscription = true, .seed = seed, .timeout = std::chrono::seconds(60)};
  for (int replica = 0; replica < replicas; ++replica)
    options.devices.push_back("cpu:" + std::to_string(replica));
  return options;
}

/// For tests: central storage on the same logical CPUs. With kAlways every replica reads a copy, as
/// on different devices.
inline CentralStorageOptions central_cpus(
    int replicas, variables::Caching caching = variables::Caching::kWhereNeeded,
    std::uint64_t seed = 0) {
  return {.compute_devices = cpus(replicas).devices,
          .caching = caching,
          .allow_oversubscription = true,
          .seed = seed,
          .timeout = std::chrono::seconds(60)};
}

/// For tests: logical CPUs without names and without their own cores.
inline std::vector<device::Device> plain_cpus(int count, int threads = 1) {
  std::vector<device::Device> devices(static_cast<std::size_t>(count));
  for (device::Device& device : devices) {
    device.threads = threads;
    device.name.type = machine::DeviceType::kCpu;
  }
  return devices;
}

/// For tests: y = x * weight + bias, all float64, and an unused parameter. A pipeline may be cut at
/// "bias".
struct AffineModule : torch::nn::Module {
  AffineModule() {
    weight = register_parameter("weight", at::full({3}, 2.0, at::kDouble));
    bias = register_parameter("bias", at::zeros({3}, at::kDouble));
    unused = register_parameter("unused", at::full({2}, 5.0, at::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) const {
    return comm::begin_layer("bias", comm::begin_layer("weight", x) * weight) + bias;
  }
  at::Tensor weight, bias, unused;
};

/// For tests: the error that `call` throws; if it throws none, code kInternal and an empty text.
inline Error error_from(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, ""};
}

/// For tests: the number of threads of this process.
inline std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(std::filesystem::begin(tasks), std::filesystem::end(tasks));
}

/// For tests: the number of threads after those of the previous test are gone: the minimum within
/// 50 ms, because the system needs a moment to remove a joined thread.
inline std::ptrdiff_t settled_threads_of_this_process() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  std::ptrdiff_t least = threads_of_this_process();
  while (std::chrono::steady_clock::now() < until) {
    least = std::min(least, threads_of_this_process());
    std::this_thread::yield();
  }
  return least;
}

/// For tests: waits until at most `count` threads are left, for up to 10 s. The system needs a
/// moment to remove a joined thread.
inline bool threads_go_down_to(std::ptrdiff_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads_of_this_process() > count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// For tests: whether the text of `error` contains `text`.
inline bool mentions(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

}  // namespace brigade::distribute

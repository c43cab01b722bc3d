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
#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"

namespace brigade::distribute {

/// For tests: `replicas` logical CPUs that may share cores, and waits that end.
inline MirroredOptions cpus(int replicas, std::uint64_t seed = 0) {
  MirroredOptions options{.oversubscription = device::Oversubscription::kAllow,
                          .seed = seed,
                          .timeout = std::chrono::seconds(60)};
  for (int replica = 0; replica < replicas; ++replica)
    options.devices.push_back("cpu:" + std::to_string(replica));
  return options;
}

/// For tests: central storage on the same logical CPUs. kAlways has every replica read a copy, as
/// between devices.
inline CentralStorageOptions central_cpus(
    int replicas, variables::Caching caching = variables::Caching::kWhereNeeded,
    std::uint64_t seed = 0) {
  return {.compute_devices = cpus(replicas).devices,
          .caching = caching,
          .oversubscription = device::Oversubscription::kAllow,
          .seed = seed,
          .timeout = std::chrono::seconds(60)};
}

/// For tests: logical CPUs without names or cores of their own.
inline std::vector<device::Device> plain_cpus(int count, int threads = 1) {
  std::vector<device::Device> devices(static_cast<std::size_t>(count));
  for (device::Device& device : devices) {
    device.threads = threads;
    device.name.type = machine::DeviceType::kCpu;
  }
  return devices;
}

/// For tests: y = x * weight + bias, all float64, and a parameter that nothing uses.
struct Line : torch::nn::Module {
  Line() {
    weight = register_parameter("weight", at::full({3}, 2.0, at::kDouble));
    bias = register_parameter("bias", at::zeros({3}, at::kDouble));
    unused = register_parameter("unused", at::full({2}, 5.0, at::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) const { return x * weight + bias; }
  at::Tensor weight, bias, unused;
};

/// For tests: the error that `call` throws; without one, code kInternal and an empty text.
inline Error error_from(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, ""};
}

/// For tests: the threads that this process has.
inline std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(std::filesystem::begin(tasks), std::filesystem::end(tasks));
}

/// For tests: how many there are once the system has forgotten those of the test before, which
/// takes it a moment: the least that is seen in a twentieth of a second.
inline std::ptrdiff_t settled_threads_of_this_process() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  std::ptrdiff_t least = threads_of_this_process();
  while (std::chrono::steady_clock::now() < until) {
    least = std::min(least, threads_of_this_process());
    std::this_thread::yield();
  }
  return least;
}

/// For tests: whether no more than `count` threads are left. The system takes a moment to forget
/// one that was joined.
inline bool threads_go_down_to(std::ptrdiff_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads_of_this_process() > count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

inline bool says(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

}  // namespace brigade::distribute

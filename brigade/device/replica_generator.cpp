#include "brigade/device/replica_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <cstddef>
#include <mutex>

#include "brigade/base/random.h"
#include "brigade/device/random_substitution.h"

namespace brigade::device {
namespace {

// at::mt19937 uses only 32 bits of its seed; this fills its whole state from all 64.
at::mt19937 mersenne_twister(std::uint64_t seed) {
  base::CounterRng rng(seed);
  at::mt19937_data_pod data{};
  data.seed_ = seed;
  data.left_ = 1;  // the block is exhausted: the first draw generates the next one
  data.seeded_ = true;
  for (std::size_t i = 0; i + 1 < data.state_.size(); i += 2) {
    const std::uint64_t bits = rng();
    data.state_[i] = static_cast<std::uint32_t>(bits);
    data.state_[i + 1] = static_cast<std::uint32_t>(bits >> 32);
  }
  at::mt19937 engine;
  engine.set_data(data);
  return engine;
}

at::Generator make_generator(c10::Device device) {
  if (device.is_cpu()) return at::make_generator<at::CPUGeneratorImpl>();
  return at::detail::getCUDAHooks().getNewGenerator(device.index());
}

void seed_generator(at::Generator& generator, std::uint64_t seed) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  if (generator.device().is_cpu()) {
    auto* cpu = generator.get<at::CPUGeneratorImpl>();
    cpu->set_engine(mersenne_twister(seed));
    cpu->set_next_float_normal_sample(std::nullopt);
    cpu->set_next_double_normal_sample(std::nullopt);
  } else {
    generator.set_current_seed(seed);
  }
}

}  // namespace

ReplicaGenerator::ReplicaGenerator(std::uint64_t root_seed, std::uint64_t replica)
    : root_seed_(root_seed), replica_(replica) {
  install_random_substitution();
}

void ReplicaGenerator::begin_step(std::uint64_t step) {
  step_ = step;
  ++step_count_;
}

at::Generator ReplicaGenerator::generator(c10::Device device) {
  if (device.is_cpu()) device = c10::Device(c10::kCPU);
  if (!device.is_cpu() && !device.is_cuda()) return at::Generator();
  if (device.is_cuda() && !device.has_index()) {
    device.set_index(at::detail::getCUDAHooks().current_device());
  }
  Source& found = source(device);
  if (found.seeded_for != step_count_) {
    seed_generator(found.generator, seed());
    found.seeded_for = step_count_;
  }
  return found.generator;
}

std::uint64_t ReplicaGenerator::seed() const {
  return step_ ? base::derive_seed(root_seed_, "replica", replica_, *step_)
               : base::derive_seed(root_seed_, "replica setup", replica_, 0);
}

ReplicaGenerator::Source& ReplicaGenerator::source(c10::Device device) {
  for (auto& source : sources_) {
    if (source.device == device) return source;
  }
  return sources_.emplace_back(
      Source{.device = device, .generator = make_generator(device), .seeded_for = 0});
}

}  // namespace brigade::device

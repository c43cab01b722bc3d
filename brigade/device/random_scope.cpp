#include "brigade/device/random_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_fused_dropout.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DispatchKey.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/device/carried_context.h"

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
  return at::globalContext()
      .getAcceleratorHooksInterface(device.type())
      .getNewGenerator(device.index());
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

/// The dispatch key that `RandomScope` includes in its thread. libtorch reserves it for external
/// code and has no kernel for it. It has priority over autograd, so that the generator is chosen
/// before anything uses the arguments.
constexpr c10::DispatchKey kRandomKey = c10::DispatchKey::DeferredInit;

c10::DispatchKeySet below(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRandomKey);
}

// The device of a call: that of its first tensor, or else its device argument.
c10::Device device_of_call(c10::ArrayRef<c10::IValue> values) {
  for (const auto& value : values) {
    if (value.isTensor() && value.toTensor().defined()) return value.toTensor().device();
    if (value.isDevice()) return value.toDevice();
  }
  return c10::Device(c10::kCPU);
}

bool is_generator(const c10::Argument& argument) {
  if (argument.type()->kind() == c10::TypeKind::GeneratorType) return true;
  const auto optional = argument.type()->cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

void substitute_generator(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                          torch::jit::Stack* stack) {
  if (ReplicaGenerator* replica = carried(kGeneratorSlot)) {
    const auto& arguments = operation.schema().arguments();
    const std::size_t first = stack->size() - arguments.size();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!(*stack)[first + i].isNone() || !is_generator(arguments[i])) continue;
      const auto device = device_of_call(torch::jit::last(*stack, arguments.size()));
      const at::Generator generator = replica->generator(device);
      if (generator.defined()) (*stack)[first + i] = generator;
    }
  }
  operation.redispatchBoxed(below(keys), stack);
}

// The kernel of dropout has no generator argument. On CUDA its older variant has one; GPUs that a
// program adds to libtorch need not have that.
void substitute_native_dropout(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                               torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, 3);  // input, p, train
  const at::Tensor input = arguments[0].toTensor();
  const bool is_training = arguments[2].isNone() || arguments[2].toBool();
  ReplicaGenerator* replica = carried(kGeneratorSlot);
  if (replica == nullptr || !is_training || !(input.is_cuda() || input.is_privateuseone())) {
    operation.redispatchBoxed(below(keys), stack);
    return;
  }
  const double keep = 1.0 - arguments[1].toDouble();
  const at::Generator generator = replica->generator(input.device());
  at::Tensor output, mask;
  if (input.is_cuda()) {
    std::tie(output, mask) = at::_fused_dropout(input, keep, generator);
  } else {
    mask = at::empty_like(input).bernoulli_(keep, generator);
    output = input * mask * (1.0 / keep);
  }
  torch::jit::drop(*stack, 3);
  torch::jit::push(*stack, std::move(output), mask.to(at::kBool));
}

// Batch norm writes its running statistics without an operation that could be substituted, so it
// gets copies to write to.
void keep_running_statistics(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                             torch::jit::Stack* stack) {
  const ReplicaGenerator* generator = carried(kGeneratorSlot);
  if (generator != nullptr && generator->is_replay()) {
    // input, weight, bias, running_mean, running_var, training, ...
    const std::size_t first = stack->size() - operation.schema().arguments().size();
    const bool is_training = (*stack)[first + 5].toBool();
    for (const std::size_t statistic : {first + 3, first + 4}) {
      c10::IValue& value = (*stack)[statistic];
      if (is_training && value.isTensor() && value.toTensor().defined())
        value = value.toTensor().clone();
    }
  }
  operation.redispatchBoxed(below(keys), stack);
}

using Registrations = std::vector<c10::RegistrationHandleRAII>;

bool draws(const c10::OperatorHandle& operation) {
  const auto& arguments = operation.schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(), is_generator);
}

std::unique_ptr<Registrations> register_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  auto registrations = std::make_unique<Registrations>();
  registrations->push_back(dispatcher.registerFallback(
      kRandomKey, c10::KernelFunction::makeFallthrough(), "brigade: operations that draw nothing"));
  const auto take_over = [&](const c10::OperatorName& name, c10::KernelFunction kernel) {
    registrations->push_back(dispatcher.registerImpl(name, kRandomKey, std::move(kernel),
                                                     std::nullopt, nullptr,
                                                     "brigade: a generator a replica"));
  };
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto operation = dispatcher.findSchema(name);
    if (operation && draws(*operation)) {
      take_over(name, c10::KernelFunction::makeFromBoxedFunction<&substitute_generator>());
    }
  }
  take_over({"aten::native_dropout", ""},
            c10::KernelFunction::makeFromBoxedFunction<&substitute_native_dropout>());
  take_over({"aten::batch_norm", ""},
            c10::KernelFunction::makeFromBoxedFunction<&keep_running_statistics>());
  return registrations;
}

/// Registers kernels under `kRandomKey` for all random operations; other operations ignore the key
/// at no cost. Takes milliseconds the first time and does nothing afterwards. No other thread
/// should be running tensor operations the first time.
void install_random_substitution() {
  // Never unregistered: threads may still draw while the process ends.
  static const Registrations* const registrations = register_kernels().release();
  static_cast<void>(registrations);
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
  const bool is_gpu = device.is_cuda() || device.is_privateuseone();
  if (!device.is_cpu() && !is_gpu) return at::Generator();
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

at::Tensor ReplicaGenerator::state() const {
  for (const Source& source : sources_) {
    if (!source.device.is_cpu() || source.seeded_for != step_count_) continue;
    at::Generator generator = source.generator;
    const std::lock_guard<std::mutex> lock(generator.mutex());
    return generator.get_state();
  }
  return {};
}

void ReplicaGenerator::set_state(const at::Tensor& state) {
  if (!state.defined()) {
    ++step_count_;
    return;
  }
  at::Generator own = generator(c10::Device(c10::kCPU));
  const std::lock_guard<std::mutex> lock(own.mutex());
  try {
    own.set_state(state);
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::kInvalidArgument, "A generator cannot continue from ", state.numel(),
                " bytes: ", error.what_without_backtrace());
  }
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

namespace {

at::Generator copy_of(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.clone();
}

}  // namespace

std::unique_ptr<ReplicaGenerator> ReplicaGenerator::fork() const {
  auto copy = std::make_unique<ReplicaGenerator>(root_seed_, replica_);
  copy->step_ = step_;
  copy->step_count_ = step_count_;
  for (const Source& source : sources_) {
    if (source.seeded_for != step_count_) continue;  // seeded again at its next draw
    copy->sources_.push_back({.device = source.device,
                              .generator = copy_of(source.generator),
                              .seeded_for = source.seeded_for});
  }
  return copy;
}

std::unique_ptr<ReplicaGenerator> ReplicaGenerator::fork_default() {
  auto copy = std::make_unique<ReplicaGenerator>(0, 0);
  const auto add = [&](c10::Device device, const at::Generator& generator) {
    copy->sources_.push_back(
        {.device = device, .generator = copy_of(generator), .seeded_for = copy->step_count_});
  };
  add(c10::Device(c10::kCPU), at::detail::getDefaultCPUGenerator());
  const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
  for (int card = 0; card < cuda.getNumGPUs(); ++card) {
    const auto index = static_cast<c10::DeviceIndex>(card);
    if (!cuda.hasPrimaryContext(index)) continue;
    add(c10::Device(c10::kCUDA, index), cuda.getDefaultGenerator(index));
  }
  return copy;
}

ReplayScope::ReplayScope(std::unique_ptr<ReplicaGenerator> fork)
    : generator_(std::move(fork)), random_(*generator_) {
  generator_->is_replay_ = true;
}

RandomScope::RandomScope(ReplicaGenerator& generator)
    : scope_(kGeneratorSlot, &generator), key_(kRandomKey) {}

}  // namespace brigade::device

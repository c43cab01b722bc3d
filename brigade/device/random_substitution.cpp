#include "brigade/device/random_substitution.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_fused_dropout.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/device/replica_generator.h"

namespace brigade::device {
namespace {

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
  if (ReplicaGenerator* replica = kGeneratorSlot.get()) {
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

// On CUDA, dropout's kernel has no generator argument, but its older variant has one.
void substitute_native_dropout(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                               torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, 3);  // input, p, train
  const at::Tensor input = arguments[0].toTensor();
  const bool is_training = arguments[2].isNone() || arguments[2].toBool();
  ReplicaGenerator* replica = kGeneratorSlot.get();
  if (replica == nullptr || !is_training || !input.is_cuda()) {
    operation.redispatchBoxed(below(keys), stack);
    return;
  }
  const double keep = 1.0 - arguments[1].toDouble();
  auto [output, mask] = at::_fused_dropout(input, keep, replica->generator(input.device()));
  torch::jit::drop(*stack, 3);
  torch::jit::push(*stack, std::move(output), mask.to(at::kBool));
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
  return registrations;
}

}  // namespace

void install_random_substitution() {
  // Never unregistered: threads may still draw while the process ends.
  static const Registrations* const registrations = register_kernels().release();
  static_cast<void>(registrations);
}

}  // namespace brigade::device

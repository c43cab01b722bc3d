#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace brigade::device::testing {

/// For tests: the operations of a fake device, which computes with the CPU's on the same memory,
/// but later: a call is queued as a function that makes it. Results are allocated when it is
/// queued; an operation whose results depend on values is made at once, after a wait for the
/// device.
///
/// Thread-safety: as the device's functions.
class DeferredCalls final : public c10::OperatorKernel {
 public:
  using Stack = torch::jit::Stack;
  /// What an operation does when it is its time to run; and what makes that when the operation is
  /// queued, or replayed: random numbers are drawn then.
  using Act = std::function<void()>;
  using MakeAct = std::function<Act()>;
  /// The device, and what it does with work and waits.
  struct DeviceQueue {
    c10::Device device;
    std::function<void(MakeAct make)> queue;
    std::function<void()> wait;
  };

  explicit DeferredCalls(DeviceQueue device) : device_(std::move(device)) {}

  /// The same memory as a tensor of the CPU.
  static at::Tensor host_view(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().is_cpu()) return tensor;
    return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(),
                         at::TensorOptions(tensor.scalar_type()));
  }

  /// The kernel of every operation without one of its own.
  void operator()(const c10::OperatorHandle& operation, c10::DispatchKeySet, Stack* stack) {
    const std::size_t count = operation.schema().arguments().size();
    const auto arguments = torch::jit::last(*stack, count);
    const Stack given(arguments.begin(), arguments.end());
    torch::jit::drop(*stack, count);
    if (!operation.operator_name().name.starts_with("aten::index")) check_devices(given);
    for (c10::IValue& result : results_of(operation, given)) stack->push_back(std::move(result));
  }

 private:
  Stack results_of(const c10::OperatorHandle& operation, const Stack& given) {
    if (const auto written = written_arguments(operation.schema(), given)) {
      resize_outputs(operation, given);
      queue(operation, given, {});
      return *written;
    }
    if (const auto made = tensors_for_results(operation, given)) {
      queue(operation, given, *made);
      return *made;
    }
    return call_now(operation, given);
  }

  /// As on a GPU, the tensors of an operation are on the device, except for numbers.
  static void check_devices(const Stack& given) {
    mapped(given, c10::kCPU, [](const at::Tensor& tensor) {
      TORCH_CHECK(!tensor.device().is_cpu() || tensor.dim() == 0,
                  "Expected all tensors to be on the same device");
      return tensor;
    });
  }

  /// The results of an operation that only writes to its arguments.
  static std::optional<Stack> written_arguments(const c10::FunctionSchema& schema,
                                                const Stack& given) {
    Stack written;
    for (const c10::Argument& result : schema.returns()) {
      if (result.alias_info() == nullptr || !result.alias_info()->isWrite()) return std::nullopt;
      for (std::size_t i = 0; i < given.size(); ++i) {
        const auto* alias = schema.arguments()[i].alias_info();
        if (alias == nullptr || alias->beforeSets() != result.alias_info()->beforeSets()) continue;
        written.push_back(given[i]);
        break;
      }
    }
    return written;
  }

  /// Operations resize outputs that are given to them empty, when they are called.
  static void resize_outputs(const c10::OperatorHandle& operation, const Stack& given) {
    const auto is_empty_output = [&](std::size_t i) {
      const c10::Argument& argument = operation.schema().arguments()[i];
      return argument.kwarg_only() && argument.alias_info() != nullptr && given[i].isTensor() &&
             given[i].toTensor().numel() == 0;
    };
    bool is_needed = false;
    for (std::size_t i = 0; i < given.size(); ++i) is_needed = is_needed || is_empty_output(i);
    if (!is_needed) return;
    Stack of_zeros = zeros_like(given);
    call_on_host(operation, of_zeros);
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (is_empty_output(i)) given[i].toTensor().resize_(of_zeros[i].toTensor().sizes());
    }
  }

  static Stack zeros_like(const Stack& given) {
    return mapped(given, c10::kCPU, [](const at::Tensor& tensor) {
      if (tensor.device().is_cpu()) return tensor;
      return at::empty_strided(tensor.sizes(), tensor.strides(),
                               at::TensorOptions(tensor.scalar_type()))
          .zero_();
    });
  }

  /// New ones, whose sizes are those of the results of zeros. Nothing if the results are no
  /// tensors, or their sizes depend on values.
  std::optional<Stack> tensors_for_results(const c10::OperatorHandle& operation,
                                           const Stack& given) {
    static const std::set<std::string> by_value = {"aten::nonzero", "aten::masked_select",
                                                   "aten::_unique2", "aten::unique_dim"};
    if (by_value.contains(operation.operator_name().name)) return std::nullopt;
    const Stack results = call_on_host(operation, zeros_like(given));
    for (const c10::IValue& result : results) {
      if (!result.isTensor() && !result.isTensorList()) return std::nullopt;
    }
    return mapped(results, device_.device,
                  [this](const at::Tensor& like) { return on_device(like); });
  }
  at::Tensor on_device(const at::Tensor& like) {
    return at::empty_strided(like.sizes(), like.strides(),
                             at::TensorOptions(like.scalar_type()).device(device_.device));
  }

  void queue(const c10::OperatorHandle& operation, const Stack& given, const Stack& made) {
    const Stack arguments = mapped(given, c10::kCPU, host_view);
    if (std::ranges::any_of(given, &c10::IValue::isGenerator))
      return queue_drawing(operation, arguments);
    const Stack targets = mapped(made, c10::kCPU, host_view);
    device_.queue([operation, arguments, targets]() -> Act {
      return [operation, arguments, targets] {
        const Stack results = call_on_host(operation, arguments);
        for (std::size_t i = 0; i < targets.size(); ++i) copy(results[i], targets[i]);
      };
    });
  }

  /// The numbers are drawn when the operation is queued, like those of a GPU.
  void queue_drawing(const c10::OperatorHandle& operation, const Stack& arguments) {
    const at::Tensor target = arguments.front().toTensor();
    device_.queue([operation, arguments, target]() -> Act {
      const at::Tensor drawn = at::empty(target.sizes(), target.options());
      Stack own = arguments;
      own.front() = drawn;
      call_on_host(operation, own);
      return [target, drawn] { target.copy_(drawn); };
    });
  }

  Stack call_now(const c10::OperatorHandle& operation, const Stack& given) {
    device_.wait();
    const Stack results = call_on_host(operation, mapped(given, c10::kCPU, host_view));
    return mapped(results, device_.device, [this](const at::Tensor& result) {
      const at::Tensor there = on_device(result);
      host_view(there).copy_(result);
      return there;
    });
  }

  static Stack call_on_host(const c10::OperatorHandle& operation, const Stack& arguments) {
    const at::AutoDispatchBelowAutograd below;
    Stack stack = arguments;
    operation.callBoxed(stack);
    return stack;
  }

  static void copy(const c10::IValue& from, const c10::IValue& to) {
    if (from.isTensor()) {
      to.toTensor().copy_(from.toTensor());
      return;
    }
    const std::vector<at::Tensor> source = from.toTensorVector();
    const std::vector<at::Tensor> target = to.toTensorVector();
    for (std::size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
  }

  template <class Change>
  static Stack mapped(const Stack& values, c10::Device device, const Change& change) {
    const auto changed = [&](const at::Tensor& tensor) {
      return tensor.defined() ? at::Tensor(change(tensor)) : tensor;
    };
    Stack result;
    for (const c10::IValue& value : values) {
      if (value.isTensor()) {
        result.emplace_back(changed(value.toTensor()));
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& each : value.toTensorVector()) list.push_back(changed(each));
        result.emplace_back(std::move(list));
      } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector())
          list.push_back(each ? std::optional(changed(*each)) : each);
        result.emplace_back(std::move(list));
      } else if (value.isDevice()) {
        result.emplace_back(device);
      } else {
        result.push_back(value);
      }
    }
    return result;
  }

  const DeviceQueue device_;
};

}  // namespace brigade::device::testing

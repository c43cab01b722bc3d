#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/device/autocast_scope.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/named_tensors.h"
#include "brigade/train/model/model_batch.h"
#include "brigade/variables/mode.h"
#include "brigade/variables/variable.h"

namespace brigade::train {

namespace internal {

/// What `Function(inputs, arguments...)` returns if it takes `Inputs`; void otherwise.
template <class Inputs, class Function, class... Arguments>
struct ResultOf {
  using Type = void;
};
template <class Inputs, class Function, class... Arguments>
requires std::invocable<Function, const Inputs&, Arguments...>
struct ResultOf<Inputs, Function, Arguments...> {
  using Type = std::remove_cvref_t<std::invoke_result_t<Function, const Inputs&, Arguments...>>;
};

/// What a network takes: one tensor if it can, so that a generic function is asked no more than
/// that, or else tensors by name.
template <class Function, class... Arguments>
using InputsOf = std::conditional_t<std::invocable<Function, const at::Tensor&, Arguments...>,
                                    at::Tensor, input::NamedTensors>;
template <class Function, class... Arguments>
using OutputsOf = typename ResultOf<InputsOf<Function, Arguments...>, Function, Arguments...>::Type;

/// Whether a network may return this.
template <class Outputs>
inline constexpr bool kIsOutputs =
    std::convertible_to<Outputs, at::Tensor> || std::same_as<Outputs, input::NamedTensors>;

/// Calls a module's `forward`.
template <class Module>
struct ForwardOf {
  template <class Inputs>
  auto operator()(const Inputs& inputs) const -> decltype(std::declval<Module&>().forward(inputs));
};
template <>
struct ForwardOf<void> {};

}  // namespace internal

/// A function of layers that takes a mode (training or evaluation): `models::Sequential`, or your
/// own. It takes one tensor or NamedTensors, and returns one tensor or NamedTensors.
template <class Function>
concept LayerFunction = internal::kIsOutputs<internal::OutputsOf<const Function&, variables::Mode>>;

/// The networks of `Model`; for its sources and templates only.
namespace internal {

/// A network under a strategy, made of a module or of a function of layers.
class Network {
 public:
  virtual ~Network() = default;
  /// The forward pass of the calling replica; the predictions are float32 in any precision. A
  /// single tensor is unnamed.
  virtual input::NamedTensors forward(const input::NamedTensors& inputs) const = 0;
  virtual void train() const = 0;
  virtual void eval() const = 0;
  virtual const std::vector<variables::Variable>& variables() const = 0;
};

/// `Inputs`, as a network takes them, of a batch's inputs.
template <class Inputs>
const Inputs& inputs_for(const input::NamedTensors& inputs) {
  if constexpr (std::same_as<Inputs, at::Tensor>) {
    return only_tensor(inputs, "The network takes one tensor, and the data", "inputs");
  } else {
    return inputs;
  }
}

template <class Module, class Inputs>
class ReplicatedNetwork final : public Network {
 public:
  explicit ReplicatedNetwork(distribute::Replicated<Module> model) : model_(std::move(model)) {}
  input::NamedTensors forward(const input::NamedTensors& inputs) const override {
    return input::map_tensors(to_named(model_(inputs_for<Inputs>(inputs))), device::uncast);
  }
  void train() const override { model_.train(); }
  void eval() const override { model_.eval(); }
  const std::vector<variables::Variable>& variables() const override { return model_.variables(); }

 private:
  distribute::Replicated<Module> model_;
};

template <class Inputs, class Module>
std::unique_ptr<Network> make_network(distribute::Replicated<Module> model) {
  return std::make_unique<ReplicatedNetwork<Module, Inputs>>(std::move(model));
}

/// How to create a network, and how to describe it.
struct NetworkSource {
  /// `example` is a small batch of inputs on the device of the first replica; it defines the
  /// shapes.
  std::function<std::unique_ptr<Network>(distribute::Strategy&, const std::string& name,
                                         const input::NamedTensors& example)>
      make;
  /// A table of the layers, given the shape of an example if it is known. Empty if there is no list
  /// of layers.
  std::function<std::string(const std::optional<std::vector<std::int64_t>>& input_shape)> summary;
};

/// The source of a network that is a function of layers.
template <class Function>
NetworkSource source_of_function(Function function) {
  NetworkSource source;
  static_assert(
      LayerFunction<Function>,
      "Model takes a function of layers, [](const at::Tensor& x, variables::Mode) { ... }, "
      "which takes at::Tensor or NamedTensors and the mode, and returns at::Tensor or "
      "NamedTensors. For a torch::nn::Module use Model::from_module.");
  if constexpr (LayerFunction<Function>) {
    using Inputs = InputsOf<const Function&, variables::Mode>;
    source.make = [function](distribute::Strategy& strategy, const std::string& name,
                             const input::NamedTensors& example) {
      return make_network<Inputs>(
          strategy.create({.name = name}, function, inputs_for<Inputs>(example)));
    };
    if constexpr (requires { function.summary(std::optional<std::vector<std::int64_t>>()); })
      source.summary = [function](const auto& input_shape) {
        return function.summary(input_shape);
      };
  }
  return source;
}

/// The module that a factory's pointer points to; void for what is no such pointer, which
/// `Strategy::create` refuses.
template <class Pointer>
struct ModuleOf {
  using Type = void;
};
template <distribute::ModulePointer Pointer>
struct ModuleOf<Pointer> {
  using Type = typename Pointer::element_type;
};

/// The source of a network that is a torch::nn::Module; `factory` creates the module.
template <class Factory>
NetworkSource source_of_module(Factory factory) {
  using Module = typename ModuleOf<std::remove_cvref_t<std::invoke_result_t<Factory&>>>::Type;
  constexpr bool is_module = !std::is_void_v<Module>;
  constexpr bool has_forward = kIsOutputs<OutputsOf<ForwardOf<Module>>>;
  static_assert(has_forward || !is_module,
                "The forward of a module for Model::from_module must take one at::Tensor or "
                "NamedTensors, and return at::Tensor or NamedTensors.");
  NetworkSource source;
  if constexpr (has_forward || !is_module) {
    source.make = [factory](distribute::Strategy& strategy, const std::string& name,
                            const input::NamedTensors&) {
      auto model = strategy.create({.name = name}, factory);
      return make_network<InputsOf<ForwardOf<Module>>>(std::move(model));
    };
  }
  return source;
}

}  // namespace internal
}  // namespace brigade::train

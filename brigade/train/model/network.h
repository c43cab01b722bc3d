#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/device/autocast_scope.h"
#include "brigade/distribute/strategy.h"
#include "brigade/variables/variable.h"

/// The networks of `Model`; for its sources and templates only.
namespace brigade::train::internal {

/// A network under a strategy, made of a module or of a function of layers.
class Network {
 public:
  virtual ~Network() = default;
  /// The forward pass of the calling replica; the predictions are float32 in any precision.
  virtual at::Tensor forward(const at::Tensor& inputs) const = 0;
  virtual void train() const = 0;
  virtual void eval() const = 0;
  virtual const std::vector<variables::Variable>& variables() const = 0;
};

template <class Module>
class ReplicatedNetwork final : public Network {
 public:
  explicit ReplicatedNetwork(distribute::Replicated<Module> model) : model_(std::move(model)) {}
  at::Tensor forward(const at::Tensor& inputs) const override {
    return device::uncast(model_(inputs));
  }
  void train() const override { model_.train(); }
  void eval() const override { model_.eval(); }
  const std::vector<variables::Variable>& variables() const override { return model_.variables(); }

 private:
  distribute::Replicated<Module> model_;
};

template <class Module>
std::unique_ptr<Network> make_network(distribute::Replicated<Module> model) {
  return std::make_unique<ReplicatedNetwork<Module>>(std::move(model));
}

/// How to create a network, and how to describe it.
struct NetworkSource {
  /// `example` is a small batch of inputs on the device of the first replica; it defines the
  /// shapes.
  std::function<std::unique_ptr<Network>(distribute::Strategy&, const std::string& name,
                                         const at::Tensor& example)>
      make;
  /// A table of the layers, given the shape of an example if it is known. Empty if there is no list
  /// of layers.
  std::function<std::string(const std::optional<std::vector<std::int64_t>>& input_shape)> summary;
};

/// The source of a network that is a function of layers.
template <class Function>
NetworkSource source_of_function(Function function) {
  NetworkSource source;
  source.make = [function](distribute::Strategy& strategy, const std::string& name,
                           const at::Tensor& example) {
    return make_network(strategy.create({.name = name}, function, example));
  };
  if constexpr (requires { function.summary(std::optional<std::vector<std::int64_t>>()); })
    source.summary = [function](const auto& input_shape) { return function.summary(input_shape); };
  return source;
}

/// The source of a network that is a torch::nn::Module; `factory` creates the module.
template <class Factory>
NetworkSource source_of_module(Factory factory) {
  NetworkSource source;
  source.make = [factory](distribute::Strategy& strategy, const std::string& name,
                          const at::Tensor&) {
    return make_network(strategy.create({.name = name}, factory));
  };
  return source;
}

}  // namespace brigade::train::internal

#pragma once

#include <type_traits>
#include <utility>

#include "brigade/variables/graph.h"
#include "brigade/variables/mode.h"

namespace brigade::distribute {

/// A module for a model that is written as a function of layers (Slim style). Calling it calls the
/// function with the variables that `Strategy::create` created. It makes one for each replica; use
/// them through `Replicated`.
///
/// The function is called as `function(inputs...)`, or as `function(inputs..., Mode)` if it takes
/// the mode, which `train()` and `eval()` set. It may be called several times in a step: each call
/// uses the same variables, and layers without a name get the same default names. TensorFlow:
/// tf.make_template.
///
/// Thread-safety: as a torch::nn::Module; the function itself is shared by the replicas and called
/// by them at the same time.
template <class Function>
class FunctionModule {
 public:
  /// `scope` is the variable scope of the first pass; `store` holds its variables.
  FunctionModule(const Function& function, variables::VariableScope scope,
                 variables::VariableStore& store)
      : function_(function), scope_(std::move(scope)), store_(&store) {}

  void train() { mode_ = variables::Mode::kTraining; }
  void eval() { mode_ = variables::Mode::kEvaluation; }
  variables::Mode mode() const { return mode_; }
  bool is_training() const { return mode_ == variables::Mode::kTraining; }

  /// Runs one forward pass. In a replica it is part of the replica's graph; elsewhere it has a
  /// separate graph, so that its losses and updates are discarded.
  template <class... Inputs>
  auto forward(const Inputs&... inputs) const {
    if (variables::Graph* graph = variables::current_graph();
        graph != nullptr && &graph->store() == store_) {
      return call(inputs...);
    }
    variables::Graph graph(*store_, {.reuse = variables::Reuse::kYes});
    const auto opened = graph.as_default();
    return call(inputs...);
  }

  /// Calls the function in the open variable scope; the first pass creates the variables this way.
  template <class... Inputs>
  static auto call_function(const Function& function, variables::Mode mode,
                            const Inputs&... inputs) {
    if constexpr (std::is_invocable_v<const Function&, const Inputs&..., variables::Mode>) {
      return function(inputs..., mode);
    } else {
      return function(inputs...);
    }
  }

 private:
  template <class... Inputs>
  auto call(const Inputs&... inputs) const {
    const auto scope = variables::variable_scope(scope_, {.reuse = variables::Reuse::kYes});
    return call_function(function_, mode_, inputs...);
  }

  Function function_;
  variables::VariableScope scope_;
  variables::VariableStore* store_;
  variables::Mode mode_ = variables::Mode::kTraining;
};

}  // namespace brigade::distribute

#pragma once

#include <type_traits>
#include <utility>

#include "brigade/variables/graph.h"
#include "brigade/variables/mode.h"

namespace brigade::distribute {

/// A model that is written as a function of layers (Slim style), seen as a module: calling it finds
/// the variables that `Strategy::build` made. Made by `Strategy::build`, one a replica, and used
/// through `Replicated`.
///
/// The function is called as `function(inputs...)`, or as `function(inputs..., Mode)` if it takes
/// the mode, which `train()` and `eval()` set. It may be called several times in a step: each call
/// finds the same variables, and layers without a name get the same default names. TensorFlow:
/// tf.make_template.
///
/// Thread-safety: as a torch::nn::Module; the function itself is shared by the replicas and called
/// by them at the same time.
template <class Function>
class FunctionModule {
 public:
  /// `scope` is the one that the first pass was made in; `store` holds its variables.
  FunctionModule(const Function& function, variables::VariableScope scope,
                 variables::VariableStore& store)
      : function_(function), scope_(std::move(scope)), store_(&store) {}

  void train() { mode_ = variables::Mode::kTraining; }
  void eval() { mode_ = variables::Mode::kEvaluation; }
  variables::Mode mode() const { return mode_; }
  bool is_training() const { return mode_ == variables::Mode::kTraining; }

  /// One pass. In a replica it is part of the replica's graph; elsewhere it has one of its own, so
  /// that its losses and updates are dropped.
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

  /// The first pass, which makes the variables; the open scope decides.
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

#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/distribute/created_model.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {

/// A model with one module per replica. The modules start equal, and the optimizer keeps them
/// equal. Use it like the module: inside `Strategy::run` it is the calling replica's module,
/// outside it is replica 0's. Made by `Strategy::create`. It is a handle: copies refer to the same
/// model.
///
/// A dot acts on every replica: `model.eval()`, `model.train()`. An arrow accesses one replica's
/// module; use it for members and for reading (`model->named_parameters()`). `model->eval()`
/// outside of `run` would switch only replica 0, and the next `run` would throw. Convert (`to`),
/// freeze and load a module before the model is created, in a factory for `Strategy::create`;
/// afterwards set values with `Variable::assign`, or restore a checkpoint.
///
/// Thread-safety: each replica from its own thread; `train`, `eval` outside of `run`.
template <class Module>
class Replicated {
 public:
  /// Called by strategies.
  Replicated(std::vector<std::shared_ptr<Module>> modules,
             std::shared_ptr<const CreatedModel> created)
      : modules_(std::move(modules)), created_(std::move(created)) {}

  /// Calls the module's `forward`.
  template <class... Inputs>
  auto operator()(Inputs&&... inputs) const {
    using Result = std::decay_t<decltype(local().forward(std::forward<Inputs>(inputs)...))>;
    if constexpr (std::is_same_v<Result, at::Tensor>) {
      return comm::end_layers(local().forward(std::forward<Inputs>(inputs)...));
    } else {
      comm::end_layers_with_more();
      return local().forward(std::forward<Inputs>(inputs)...);
    }
  }
  Module* operator->() const { return &local(); }

  /// The calling replica's module; outside of replicas, replica 0's. Throws kFailedPrecondition,
  /// naming both strategies, in a replica of another strategy than the one that created the model.
  Module& local() const { return *modules_[created_->calling_replica()]; }
  Module& replica(int id) const { return *modules_.at(static_cast<std::size_t>(id)); }

  /// All variables, buffers included, in the module's order: what a checkpoint saves.
  const std::vector<variables::Variable>& variables() const { return created_->variables(); }

  /// What its strategy knows about it; for other wrappers of the same model.
  const std::shared_ptr<const CreatedModel>& created() const { return created_; }

  /// Training mode in every replica (dropout, batch statistics).
  void train() const {
    for (const auto& module : modules_) module->train();
  }

  /// Evaluation mode in every replica. Variables that each replica updates separately (batch-norm
  /// statistics) are set to their aggregate in all replicas: the evaluated model is the one that a
  /// checkpoint would save.
  void eval() const {
    for (const auto& module : modules_) module->eval();
    for (const variables::Variable& variable : variables()) {
      if (variable.synchronization() == variables::Synchronization::kOnRead)
        variable.assign(variable.read());
    }
  }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
  std::shared_ptr<const CreatedModel> created_;
};

}  // namespace brigade::distribute

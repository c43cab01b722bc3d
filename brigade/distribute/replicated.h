#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "brigade/distribute/created_model.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {

/// A model built once a replica, equal at the start and kept equal by its optimizer. Used like the
/// module itself: inside `Strategy::run` it is the calling replica's, outside it is replica 0's.
/// Made by `Strategy::create`. A handle: copies are the same model.
///
/// What must hold in every replica is said to the handle, with a dot: `model.eval()`,
/// `model.train()`. The arrow reaches one module, for its members and for what only reads
/// (`model->named_parameters()`); `model->eval()` outside of `run` would switch replica 0 alone,
/// which the next `run` refuses. Convert (`to`), freeze and load a module before it is created, in
/// a factory for `Strategy::create_from`; afterwards set values with `Variable::assign`, or restore
/// a checkpoint.
///
/// Thread-safety: each replica from its own thread; `train`, `eval` outside of `run`.
template <class Module>
class Replicated {
 public:
  /// For strategies.
  Replicated(std::vector<std::shared_ptr<Module>> modules,
             std::shared_ptr<const CreatedModel> created)
      : modules_(std::move(modules)), created_(std::move(created)) {}

  /// Calls the module's `forward`.
  template <class... Inputs>
  auto operator()(Inputs&&... inputs) const {
    return local().forward(std::forward<Inputs>(inputs)...);
  }
  Module* operator->() const { return &local(); }

  /// The calling replica's module; outside of replicas, replica 0's. Throws kFailedPrecondition,
  /// naming both, in a replica of another strategy than the one that created it.
  Module& local() const { return *modules_[created_->calling_replica()]; }
  Module& replica(int id) const { return *modules_.at(static_cast<std::size_t>(id)); }

  /// All variables, buffers included, in the module's order: what a checkpoint saves.
  const std::vector<variables::Variable>& variables() const { return created_->variables(); }

  /// What its strategy knows of it: for another face of the same model.
  const std::shared_ptr<const CreatedModel>& created() const { return created_; }

  /// Training mode in every replica (dropout, batch statistics).
  void train() const {
    for (const auto& module : modules_) module->train();
  }

  /// Evaluation mode in every replica. Values that replicas gathered apart (batch-norm statistics)
  /// become their aggregate everywhere: one model is evaluated, the one that would be saved.
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

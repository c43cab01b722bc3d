#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/replica.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {

/// A model built once a replica, equal at the start and kept equal by its optimizer. Used like the
/// module itself: inside `Strategy::run` it is the calling replica's, outside it is replica 0's.
/// Made by `Strategy::create`. A handle: copies are the same model.
///
/// Thread-safety: each replica from its own thread; `train`, `eval` outside of `run`.
template <class Module>
class Replicated {
 public:
  Replicated(std::vector<std::shared_ptr<Module>> modules,
             std::vector<variables::Variable> model_variables)
      : modules_(std::move(modules)), variables_(std::move(model_variables)) {}

  /// Calls the module's `forward`.
  template <class... Inputs>
  auto operator()(Inputs&&... inputs) const {
    return local().forward(std::forward<Inputs>(inputs)...);
  }
  Module* operator->() const { return &local(); }

  /// The calling replica's module; outside of replicas, replica 0's. Throws kFailedPrecondition in
  /// a replica of a strategy with more replicas than this model was created for.
  Module& local() const {
    const comm::Replica* replica = comm::current_replica();
    const std::size_t id = replica == nullptr ? 0 : static_cast<std::size_t>(replica->local_id);
    check_state(id < modules_.size(),
                "A model is used in a replica of a strategy that did not create it.");
    return *modules_[id];
  }
  Module& replica(int id) const { return *modules_.at(static_cast<std::size_t>(id)); }

  /// All variables, buffers included, in the module's order: what a checkpoint saves.
  const std::vector<variables::Variable>& variables() const { return variables_; }

  /// Training mode in every replica (dropout, batch statistics).
  void train() const {
    for (const auto& module : modules_) module->train();
  }

  /// Evaluation mode in every replica. Values that replicas gathered apart (batch-norm statistics)
  /// become their aggregate everywhere: one model is evaluated, the one that would be saved.
  void eval() const {
    for (const auto& module : modules_) module->eval();
    for (const variables::Variable& variable : variables_) {
      if (variable.synchronization() == variables::Synchronization::kOnRead)
        variable.assign(variable.read());
    }
  }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
  std::vector<variables::Variable> variables_;
};

}  // namespace brigade::distribute

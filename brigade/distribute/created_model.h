#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/distribute/replica_context.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {

/// Whether a model or a submodule is in training mode, in each replica.
struct ModuleMode {
  std::string name;                                ///< the submodule's name; empty: the whole model
  std::vector<std::function<bool()>> is_training;  ///< [replica]
};

/// The modes of a model and its submodules. `replicas` holds one module per replica.
std::vector<ModuleMode> module_modes(std::span<const std::shared_ptr<torch::nn::Module>> replicas);

/// What a strategy knows about a model that it created, whatever its type. Before and after each
/// run it checks the model for changes that would silently train a different model. Owned by the
/// model's handles; the strategy checks it as long as a handle exists.
///
/// Thread-safety: each replica from its own thread; `check_modes` outside of replicas.
class CreatedModel {
 public:
  CreatedModel(StrategyRef owner, std::vector<variables::Variable> variables,
               std::vector<ModuleMode> modes);

  /// All variables, buffers included.
  const std::vector<variables::Variable>& variables() const { return variables_; }

  /// The index, in this process, of the replica that the calling thread runs; 0 outside of
  /// replicas. Throws kFailedPrecondition, naming both strategies, in a replica of another
  /// strategy.
  std::size_t calling_replica() const;

  /// Throws kFailedPrecondition, naming the submodule, if its mode differs between replicas.
  void check_modes() const;
  /// Calls `Variable::check_untouched` for every parameter.
  void check_untouched(int replica) const;

 private:
  const StrategyRef owner_;
  const std::vector<variables::Variable> variables_;
  std::vector<variables::Variable> parameters_;  // the variables that are equal in all replicas
  const std::vector<ModuleMode> modes_;
};

}  // namespace brigade::distribute

#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brigade/distribute/owning_strategy.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {

/// A part of a model that is in training or in evaluation mode.
struct ModuleMode {
  std::string name;                                ///< a submodule's; empty: the whole model
  std::vector<std::function<bool()>> is_training;  ///< [replica]
};

/// The modules of a model that was built once a replica, with their submodules.
std::vector<ModuleMode> module_modes(std::span<const std::shared_ptr<torch::nn::Module>> replicas);

/// What a strategy knows of a model that it made, whatever its type: enough to find, before and
/// after each run, what would otherwise train another model without a word. Held by the model's
/// handles; the strategy looks on while one is left.
///
/// Thread-safety: each replica from its own thread; `check_modes` outside of replicas.
class CreatedModel {
 public:
  CreatedModel(OwningStrategy owner, std::vector<variables::Variable> variables,
               std::vector<ModuleMode> parts);

  /// All variables, buffers included.
  const std::vector<variables::Variable>& variables() const { return variables_; }

  /// Which of this process's replicas the calling thread runs; outside of replicas 0. Throws
  /// kFailedPrecondition, naming both strategies, in a replica of another one.
  std::size_t calling_replica() const;

  /// Throws kFailedPrecondition, naming the part, if one replica trains where another evaluates.
  void check_modes() const;
  /// `Variable::check_untouched` of every parameter.
  void check_untouched(int replica) const;

 private:
  const OwningStrategy owner_;
  const std::vector<variables::Variable> variables_;
  std::vector<variables::Variable> parameters_;  // those that replicas keep equal
  const std::vector<ModuleMode> parts_;
};

}  // namespace brigade::distribute

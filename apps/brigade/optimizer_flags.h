#pragma once

#include <optional>
#include <string>

#include "brigade/optim/update_rule.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags that choose the optimizer.
struct OptimizerFlags {
  std::string optimizer = "adam";
  std::optional<double> learning_rate;
  std::optional<double> momentum;
  std::optional<double> weight_decay;

  void add_to(CLI::App& app);
  /// The rule that the flags describe. Throws UsageError.
  optim::UpdateRulePtr rule() const;
};

}  // namespace brigade::command

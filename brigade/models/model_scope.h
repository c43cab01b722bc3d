#pragma once

#include <optional>
#include <string>

#include "brigade/variables/graph.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::models {

/// Implements the `reuse` and `scope` arguments of model functions: a variable scope for the layers
/// while this object lives, or none if neither is set.
class [[nodiscard]] ModelScope {
 public:
  ModelScope(const std::string& scope, variables::Reuse reuse) {
    const variables::VariableScopeOptions options{.reuse = reuse};
    if (!scope.empty()) {
      opened_.emplace(variables::require_graph("a model function"), scope, options);
    } else if (reuse != variables::Reuse::kInherit) {
      opened_.emplace(variables::require_graph("a model function"), variables::get_variable_scope(),
                      options);
    }
  }

 private:
  std::optional<variables::OpenVariableScope> opened_;
};

}  // namespace brigade::models

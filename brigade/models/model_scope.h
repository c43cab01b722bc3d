#pragma once

#include <optional>
#include <string>

#include "brigade/variables/variable_scope.h"

namespace brigade::models {

/// Implements the `reuse` and `scope` arguments of model functions: a variable scope for the layers
/// while this object lives, or none if neither is set.
class [[nodiscard]] ModelScope {
 public:
  ModelScope(const std::string& scope, variables::Reuse reuse);

 private:
  std::optional<variables::OpenVariableScope> opened_;
};

}  // namespace brigade::models

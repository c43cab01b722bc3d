#pragma once

#include <optional>
#include <string>

#include "brigade/variables/variable_scope.h"

namespace brigade::models {

/// The `reuse` and `scope` arguments that every model function takes: a variable scope around its
/// layers while this lives, or none if neither says anything.
class [[nodiscard]] ModelScope {
 public:
  ModelScope(const std::string& scope, variables::Reuse reuse);

 private:
  std::optional<variables::OpenVariableScope> opened_;
};

}  // namespace brigade::models

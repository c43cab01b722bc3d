#include "brigade/models/model_scope.h"

#include "brigade/variables/graph.h"

namespace brigade::models {

ModelScope::ModelScope(const std::string& scope, variables::Reuse reuse) {
  const variables::VariableScopeOptions options{.reuse = reuse};
  if (!scope.empty()) {
    opened_.emplace(variables::require_graph("a model function"), scope, options);
  } else if (reuse != variables::Reuse::kInherit) {
    opened_.emplace(variables::require_graph("a model function"), variables::get_variable_scope(),
                    options);
  }
}

}  // namespace brigade::models

#include "brigade/slim/layers.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::slim {

Variable model_variable(const std::string& name,
                        const std::optional<std::vector<std::int64_t>>& shape,
                        VariableOptions options) {
  auto collections =
      options.collections.value_or(std::vector<std::string>{variables::kGlobalVariables});
  if (std::ranges::find(collections, variables::kModelVariables) == collections.end())
    collections.push_back(variables::kModelVariables);
  options.collections = std::move(collections);
  return variables::get_variable(name, shape, options);
}

Variable get_unique_variable(std::string_view name) {
  std::vector<std::string> names;
  for (const Variable& variable : variables::global_variables()) {
    if (variable.name() == name) return variable;
    names.push_back(variable.name());
  }
  throw Error(ErrorCode::kNotFound, base::str_cat("There is no variable '", name,
                                                  "'; there are: ", base::join(names, ", "), "."));
}

}  // namespace brigade::slim

#pragma once

#include <string>
#include <vector>

#include "brigade/variables/get_variable.h"
#include "brigade/variables/graph.h"

namespace brigade::models {

/// For tests: the names of the current graph's variables, in the order of their making.
inline std::vector<std::string> variable_names() {
  std::vector<std::string> names;
  for (const auto& variable : variables::global_variables()) names.push_back(variable.name());
  return names;
}

}  // namespace brigade::models

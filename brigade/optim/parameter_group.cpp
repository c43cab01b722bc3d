#include "brigade/optim/parameter_group.h"

#include <fnmatch.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::optim {

namespace {

bool matches(const ParameterGroup& group, const std::string& name) {
  return std::any_of(group.names.begin(), group.names.end(), [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

void validate(const ParameterGroup& group) {
  const std::string which = base::str_cat("Parameter group {", base::join(group.names, ", "), "}");
  check_argument(group.learning_rate.value_or(0) >= 0, which, " has a negative learning_rate.");
  check_argument(group.weight_decay.value_or(0) >= 0, which, " has a negative weight_decay.");
}

std::string names_of(std::span<const variables::Variable> variables) {
  std::vector<std::string> names;
  for (const variables::Variable& variable : variables) names.push_back(variable.name());
  return base::join(names, ", ");
}

}  // namespace

std::vector<GroupedHyperparameters> assign_groups(std::span<const variables::Variable> variables,
                                                  std::span<const ParameterGroup> groups) {
  std::vector<GroupedHyperparameters> assigned(variables.size());
  std::vector<bool> taken(variables.size(), false);
  for (const ParameterGroup& group : groups) {
    validate(group);
    bool used = false;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (!matches(group, variables[i].name())) continue;
      used = true;
      if (taken[i]) continue;
      taken[i] = true;
      assigned[i] = {group.learning_rate, group.weight_decay, group.frozen, group.layer_adaptation};
    }
    if (!used) {
      refuse("Parameter group {", base::join(group.names, ", "),
             "} matches no variable; the variables are ", names_of(variables), ".");
    }
  }
  return assigned;
}

}  // namespace brigade::optim

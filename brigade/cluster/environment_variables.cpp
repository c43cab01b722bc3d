#include "brigade/cluster/environment_variables.h"

#include <utility>

#include "brigade/base/environment.h"

namespace brigade::cluster {
Environment process_environment() {
  return [](const std::string& name) { return base::environment(name); };
}

Environment make_environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

}  // namespace brigade::cluster

#include "brigade/ps/client/placed_variables.h"

#include "brigade/base/error.h"
#include "brigade/base/printable.h"

namespace brigade::ps {

PlacedVariables::PlacedVariables(std::span<const PlacedVariable> placement, int servers)
    : variables_(placement.begin(), placement.end()),
      by_server_(static_cast<std::size_t>(servers)) {
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const auto& [name, server, is_trainable] = variables_[i];
    check_argument(indices_.emplace(name, i).second, "Variable ", base::quoted(name),
                   " is placed twice.");
    check_argument(server >= 0 && server < servers, "Variable ", base::quoted(name),
                   " is placed on server ", server, "; there are ", servers, ", numbered from 0.");
    by_server_[static_cast<std::size_t>(server)].push_back(i);
  }
}

std::optional<std::size_t> PlacedVariables::find(const std::string& name) const {
  const auto found = indices_.find(name);
  if (found == indices_.end()) return std::nullopt;
  return found->second;
}

const std::vector<std::size_t>& PlacedVariables::of_server(int server) const {
  return by_server_.at(static_cast<std::size_t>(server));
}

std::vector<std::string> PlacedVariables::names_of_server(int server) const {
  std::vector<std::string> names;
  for (const std::size_t i : of_server(server)) names.push_back(variables_[i].name);
  return names;
}

std::vector<std::vector<Creation>> PlacedVariables::divide(
    std::span<const Creation> creations) const {
  std::vector<std::vector<Creation>> parts(by_server_.size());
  std::vector<bool> is_created(variables_.size(), false);
  for (const Creation& each : creations) {
    const std::optional<std::size_t> index = find(each.name);
    check_argument(index.has_value(), "Variable ", base::quoted(each.name),
                   " is to be created and is not placed.");
    check_argument(!is_created[*index], "Variable ", base::quoted(each.name),
                   " is to be created twice.");
    check_argument(each.is_trainable == variables_[*index].is_trainable, "Variable ",
                   base::quoted(each.name),
                   " is trainable in its creation or in its placement, and not in the other.");
    check_argument(each.value.defined() && each.value.device().is_cpu(),
                   "The first value of variable ", base::quoted(each.name),
                   " has to be a tensor on the CPU.");
    is_created[*index] = true;
    parts[static_cast<std::size_t>(variables_[*index].server)].push_back(each);
  }
  for (std::size_t i = 0; i < variables_.size(); ++i)
    check_argument(is_created[i], "Variable ", base::quoted(variables_[i].name),
                   " is placed and has no first value.");
  return parts;
}

std::vector<std::vector<NamedState>> PlacedVariables::divide(
    std::span<const NamedState> states) const {
  std::vector<std::vector<NamedState>> parts(by_server_.size());
  for (const NamedState& each : states) {
    const std::optional<std::size_t> index = find(each.name);
    if (!index)
      throw Error(ErrorCode::kNotFound, "Variable ", base::quoted(each.name),
                  " is not one of the parameter servers'.");
    parts[static_cast<std::size_t>(variables_[*index].server)].push_back(each);
  }
  return parts;
}

}  // namespace brigade::ps

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/ps/server_placement.h"
#include "brigade/ps/store/parameter_store.h"

namespace brigade::ps {

/// Which server has which variables of a job: a placement that was checked.
///
/// Thread-safety: const calls from any thread.
class PlacedVariables {
 public:
  PlacedVariables() = default;
  /// Throws kInvalidArgument for a variable that occurs twice, or is on a server that does not
  /// exist.
  PlacedVariables(std::span<const PlacedVariable> placement, int servers);

  std::size_t size() const { return variables_.size(); }
  const PlacedVariable& operator[](std::size_t i) const { return variables_[i]; }
  std::optional<std::size_t> find(const std::string& name) const;
  /// The variables of a server, in the order of the placement.
  const std::vector<std::size_t>& of_server(int server) const;
  std::vector<std::string> names_of_server(int server) const;

  /// [server]: the creations of its variables. Throws kInvalidArgument, naming the variable, unless
  /// these are exactly the variables, each once, with a value on the CPU.
  std::vector<std::vector<Creation>> divide(std::span<const Creation> creations) const;
  /// [server]: the states of its variables. Throws kNotFound for a variable that is not placed.
  std::vector<std::vector<NamedState>> divide(std::span<const NamedState> states) const;

 private:
  std::vector<PlacedVariable> variables_;
  std::vector<std::vector<std::size_t>> by_server_;
  std::map<std::string, std::size_t> indices_;
};

}  // namespace brigade::ps

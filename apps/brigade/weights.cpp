#include "apps/brigade/weights.h"

#include <CLI/CLI.hpp>

namespace brigade::command {

void add_hash_mismatch(CLI::App& app, bool& allow_changed_weights) {
  app.add_flag("--allow-changed-weights", allow_changed_weights,
               "Accept weights that do not match the recorded sha256: they were replaced on "
               "purpose");
}

checkpoint::HashMismatch hash_mismatch(bool allow_changed_weights) {
  return allow_changed_weights ? checkpoint::HashMismatch::kAllow
                               : checkpoint::HashMismatch::kRefuse;
}

std::vector<checkpoint::NamedTensor> weights_of(std::span<const variables::Variable> variables) {
  std::vector<checkpoint::NamedTensor> weights;
  for (const variables::Variable& variable : variables) {
    weights.push_back({.name = variable.name(), .tensor = variable.read()});
  }
  return weights;
}

}  // namespace brigade::command

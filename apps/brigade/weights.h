#pragma once

#include <span>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/variables/variable.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// Adds `--allow-changed-weights`, for weights that were replaced on purpose.
void add_hash_mismatch(CLI::App& app, bool& allow_changed_weights);
/// The policy for that flag.
checkpoint::HashMismatch hash_mismatch(bool allow_changed_weights);

/// The values of all variables, as they are saved and hashed.
std::vector<checkpoint::NamedTensor> weights_of(std::span<const variables::Variable> variables);

}  // namespace brigade::command

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

/// Gives the variables the values in `weights`. Throws kInvalidArgument, listing the names and
/// shapes that differ, unless names, shapes and dtypes are the same; then nothing is changed.
/// `source` and `model` say in the message whose weights they are and for what.
void assign_weights(std::span<const variables::Variable> variables,
                    const checkpoint::SafetensorsFile& weights, std::string_view source,
                    std::string_view model);

/// Elements of a variable that are NaN or infinite.
struct NotFinite {
  std::string name;
  std::uint64_t count = 0;
};
/// The tensors that have any, in their order.
std::vector<NotFinite> not_finite(std::span<const checkpoint::NamedTensor> weights);

}  // namespace brigade::command

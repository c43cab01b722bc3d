#include "apps/brigade/weights.h"

#include <CLI/CLI.hpp>
#include <map>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/inspect.h"

namespace brigade::command {
namespace {

std::string dimensions_text(at::IntArrayRef shape) {
  return base::str_cat("[", base::join(shape, ", "), "]");
}

// The shape, and the dtype where that is what differs.
std::string form_text(at::IntArrayRef shape, at::ScalarType dtype, bool with_dtype) {
  return with_dtype ? base::str_cat(at::toString(dtype), " ", dimensions_text(shape))
                    : dimensions_text(shape);
}

struct Differences {
  std::vector<std::string> missing, unexpected, different;

  bool empty() const { return missing.empty() && unexpected.empty() && different.empty(); }
  std::string describe() const {
    std::vector<std::string> parts;
    const auto add = [&parts](std::string_view what, const std::vector<std::string>& names) {
      if (!names.empty()) parts.push_back(base::str_cat(what, ": ", base::join(names, ", ")));
    };
    add("missing", missing);
    add("unexpected", unexpected);
    add("different", different);
    return base::join(parts, "; ");
  }
};

Differences compare(std::span<const variables::Variable> variables,
                    const checkpoint::SafetensorsFile& weights) {
  std::map<std::string, const at::Tensor*> stored;
  for (const auto& named : weights.tensors) stored[named.name] = &named.tensor;
  Differences found;
  for (const variables::Variable& variable : variables) {
    const auto match = stored.find(variable.name());
    if (match == stored.end()) {
      found.missing.push_back(
          base::str_cat(variable.name(), " ", dimensions_text(variable.shape())));
      continue;
    }
    const at::Tensor& tensor = *match->second;
    const bool same_dtype = tensor.scalar_type() == variable.dtype();
    if (!same_dtype || tensor.sizes() != variable.shape()) {
      found.different.push_back(base::str_cat(
          variable.name(), " is ", form_text(tensor.sizes(), tensor.scalar_type(), !same_dtype),
          ", expected ", form_text(variable.shape(), variable.dtype(), !same_dtype)));
    }
    stored.erase(match);
  }
  for (const auto& [name, tensor] : stored) {
    found.unexpected.push_back(base::str_cat(name, " ", dimensions_text(tensor->sizes())));
  }
  return found;
}

}  // namespace

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

void assign_weights(std::span<const variables::Variable> variables,
                    const checkpoint::SafetensorsFile& weights, std::string_view source,
                    std::string_view model) {
  const Differences differences = compare(variables, weights);
  if (!differences.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        base::str_cat("the weights in ", source, " do not fit model ", model, ": ",
                      differences.describe(), "; give --model and its flags as in the training"));
  }
  for (const variables::Variable& variable : variables) {
    variable.assign(weights.at(variable.name()));
  }
}

std::vector<NotFinite> not_finite(std::span<const checkpoint::NamedTensor> weights) {
  std::vector<NotFinite> found;
  for (const checkpoint::NamedTensor& each : weights) {
    if (const auto count = checkpoint::count_not_finite(each.tensor)) {
      found.push_back({.name = each.name, .count = count});
    }
  }
  return found;
}

}  // namespace brigade::command

#include "brigade/checkpoint/restore.h"

#include <algorithm>
#include <regex>
#include <set>

#include "brigade/base/ambient.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/variables/variable_slices.h"

namespace brigade::checkpoint {
namespace {

using base::str_cat;
using variables::Variable;

std::string form_of(at::ScalarType dtype, at::IntArrayRef shape) {
  return str_cat(at::toString(dtype), " [", base::join(shape, ", "), "]");
}

bool is_in_scope(const std::string& name, std::string_view scope) {
  if (!std::string_view(name).starts_with(scope)) return false;
  const bool scope_ends = scope.ends_with('/') || scope.ends_with('.');
  return name.size() == scope.size() || scope_ends || name[scope.size()] == '/' ||
         name[scope.size()] == '.';
}

bool is_in_any_scope(const std::string& name, const std::vector<std::string>& scopes) {
  return std::any_of(scopes.begin(), scopes.end(),
                     [&](const std::string& scope) { return is_in_scope(name, scope); });
}

void check_scopes(const std::vector<std::string>& scopes, std::span<const Variable> variables) {
  for (const std::string& scope : scopes) {
    const bool is_used = std::any_of(variables.begin(), variables.end(), [&](const Variable& each) {
      return is_in_scope(each.name(), scope);
    });
    if (is_used) continue;
    std::vector<std::string> names;
    for (const Variable& each : variables) names.push_back(each.name());
    throw Error(ErrorCode::kInvalidArgument, "restore: no variable is in the scope ",
                base::quoted(scope), base::did_you_mean(scope, names));
  }
}

std::vector<Variable> chosen(std::span<const Variable> variables, const RestoreOptions& options) {
  check_scopes(options.include, variables);
  check_scopes(options.exclude, variables);
  std::vector<Variable> result;
  for (const Variable& each : variables) {
    const bool is_in = options.include.empty() || is_in_any_scope(each.name(), options.include);
    if (is_in && !is_in_any_scope(each.name(), options.exclude)) result.push_back(each);
  }
  check_argument(!result.empty(), "restore: there is no variable to restore");
  return result;
}

/// The stored name of what is called `name` here.
std::optional<std::string> renamed(const std::string& name, const RestoreOptions& options) {
  for (const Rename& each : options.renames) {
    if (auto stored = each.apply(name)) return stored;
  }
  return std::nullopt;
}

/// Names under which a variable may be stored, the likeliest first.
std::vector<std::string> stored_names(const Variable& variable, const RestoreOptions& options) {
  if (const auto name = renamed(variable.name(), options)) return {*name};
  std::vector<std::string> names = {variable.name()};
  names.insert(names.end(), variable.aliases().begin(), variable.aliases().end());
  return names;
}

/// The name under which the whole of a partition may be stored.
std::optional<std::string> stored_whole(const Variable& variable, const RestoreOptions& options) {
  if (!variable.slice()) return std::nullopt;
  const std::string& whole = variable.slice()->whole;
  return renamed(whole, options).value_or(whole);
}

/// What is stored, by name; and, of TensorFlow's object-based checkpoints, by the name without
/// its suffix.
using Stored = std::map<std::string_view, const NamedTensor*>;

struct Match {
  const Variable* variable;
  std::string stored;
  at::Tensor value;
  std::string misfit = {};  ///< Why the value cannot be assigned; empty: it can.
};

/// The planned assignments, and what does not fit.
struct Plan {
  std::vector<Match> matches;
  std::vector<std::string> missing;  ///< Messages, without the source.
  std::vector<std::string> misfits;
  RestoreReport report;
};

std::string missing_text(const Variable& variable, std::string_view stored_name) {
  return str_cat(
      "[", variable.name(), "]",
      stored_name == variable.name() ? "" : str_cat(", stored as ", base::quoted(stored_name)));
}

/// The value as libtorch lays it out.
at::Tensor converted(const NamedTensor& stored, const std::string& variable,
                     const RestoreOptions& options) {
  if (options.layout == WeightsLayout::kTorch) return stored.tensor;
  const auto image = std::ranges::find(options.flattened, variable,
                                       &std::pair<std::string, FlattenedImage>::first);
  return to_torch_layout(
      stored.tensor, stored.name, variable,
      image == options.flattened.end() ? std::nullopt : std::optional(image->second));
}

/// "'w' is Float [2, 3] and 'x' is Float [3, 2]", and what it was before it was converted.
std::string misfit_text(std::string_view variable, const std::string& form,
                        const NamedTensor& stored, const at::Tensor& value) {
  const bool is_converted = value.sizes() != stored.tensor.sizes();
  return str_cat(base::quoted(variable), " is ", form, " and ", base::quoted(stored.name), " is ",
                 form_of(value.scalar_type(), value.sizes()),
                 is_converted
                     ? str_cat(" (TensorFlow's [", base::join(stored.tensor.sizes(), ", "), "])")
                     : "");
}

Match match_with(const NamedTensor& stored, const Variable& variable,
                 const RestoreOptions& options) {
  const at::Tensor value = converted(stored, variable.name(), options);
  const bool is_reshaped = options.shapes == Shapes::kReshape && value.numel() == variable.numel();
  if (value.scalar_type() == variable.dtype() && (is_reshaped || value.sizes() == variable.shape()))
    return {&variable, stored.name, value.reshape(variable.shape())};
  const std::string form = form_of(variable.dtype(), variable.shape());
  return {&variable, stored.name, {}, misfit_text(variable.name(), form, stored, value)};
}

/// With the partition's part of the whole variable that is stored.
Match match_with_whole(const NamedTensor& stored, const Variable& variable,
                       const RestoreOptions& options) {
  const variables::VariableSlice& slice = *variable.slice();
  const at::Tensor value = converted(stored, slice.whole, options);
  if (value.scalar_type() == variable.dtype() && value.sizes() == at::IntArrayRef(slice.shape)) {
    const auto axis = static_cast<std::size_t>(slice.axis);
    return {&variable, stored.name, variables::part_of_whole(value, slice, variable.shape()[axis])};
  }
  const std::string form = str_cat(form_of(variable.dtype(), slice.shape), " in partitions");
  return {&variable, stored.name, {}, misfit_text(slice.whole, form, stored, value)};
}

/// What is stored of the variable, under any of its names.
std::optional<Match> match_of(const Stored& stored, const Variable& variable,
                              const RestoreOptions& options) {
  for (const std::string& name : stored_names(variable, options)) {
    const auto found = stored.find(name);
    if (found != stored.end()) return match_with(*found->second, variable, options);
  }
  const auto whole = stored_whole(variable, options);
  if (!whole || !stored.contains(*whole)) return std::nullopt;
  return match_with_whole(*stored.at(*whole), variable, options);
}

Plan make_plan(const Stored& stored, std::span<const Variable> wanted,
               const RestoreOptions& options) {
  Plan plan;
  std::set<std::string_view> unused;
  for (const auto& [name, tensor] : stored) unused.insert(tensor->name);
  for (const Variable& variable : wanted) {
    std::optional<Match> match = match_of(stored, variable, options);
    if (!match) {
      plan.missing.push_back(missing_text(variable, stored_names(variable, options).front()));
      plan.report.missing_in_checkpoint.push_back(variable.name());
      continue;
    }
    unused.erase(match->stored);
    if (!match->misfit.empty()) {
      plan.misfits.push_back(match->misfit);
      continue;
    }
    plan.report.restored.push_back({variable.name(), match->stored});
    plan.matches.push_back(*std::move(match));
  }
  plan.report.unused_in_checkpoint.assign(unused.begin(), unused.end());
  return plan;
}

/// One error for everything that does not fit, as with the weights of another architecture.
void check(const Plan& plan, std::string_view source, const RestoreOptions& options) {
  const bool is_missing = options.missing == Missing::kRefuse && !plan.missing.empty();
  if (!is_missing && plan.misfits.empty()) return;
  std::string text;
  if (is_missing) {
    text = str_cat("Checkpoint is missing variable", plan.missing.size() == 1 ? " " : "s ",
                   base::listed(plan.missing, ", "));
  }
  if (!plan.misfits.empty()) {
    text += str_cat(text.empty() ? "restore: " : "; ",
                    "these differ in shape or dtype: ", base::listed(plan.misfits, "; "));
  }
  const std::vector<std::string>& unused = plan.report.unused_in_checkpoint;
  if (is_missing && !unused.empty()) {
    text += str_cat(
        "; it has ",
        base::listed(unused, ", ", [](const std::string& name) { return base::quoted(name); }),
        ", which no variable uses");
  }
  throw Error(plan.misfits.empty() ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument, text, " (",
              source, ")");
}

void check_flattened_names(std::span<const Variable> variables, const RestoreOptions& options) {
  std::vector<std::string> names;
  for (const Variable& each : variables) {
    names.push_back(each.slice() ? each.slice()->whole : each.name());
  }
  for (const auto& [name, image] : options.flattened) {
    check_argument(std::ranges::find(names, name) != names.end(),
                   "restore: RestoreOptions::flattened names ", base::quoted(name),
                   ", which is not restored", base::did_you_mean(name, names));
  }
}

Stored stored_of(std::span<const NamedTensor> tensors, const RestoreOptions& options) {
  Stored stored;
  for (const NamedTensor& each : tensors) stored.emplace(each.name, &each);
  if (options.layout == WeightsLayout::kTorch) return stored;
  for (const NamedTensor& each : tensors) {
    stored.emplace(without_attribute_suffix(each.name), &each);  // unless there is one of that name
  }
  return stored;
}

}  // namespace

Rename Rename::name(std::string variable, std::string stored) {
  return {Kind::kName, std::move(variable), std::move(stored)};
}

Rename Rename::prefix(std::string variables, std::string stored) {
  return {Kind::kPrefix, std::move(variables), std::move(stored)};
}

Rename Rename::pattern(std::string expression, std::string replacement) {
  try {
    std::regex{expression};
  } catch (const std::regex_error& error) {
    throw Error(ErrorCode::kInvalidArgument, "Rename: ", base::quoted(expression),
                " is not a valid regular expression: ", error.what());
  }
  return {Kind::kPattern, std::move(expression), std::move(replacement)};
}

std::optional<std::string> Rename::apply(const std::string& variable) const {
  switch (kind_) {
    case Kind::kName:
      return variable == from_ ? std::optional(to_) : std::nullopt;
    case Kind::kPrefix:
      if (!variable.starts_with(from_)) return std::nullopt;
      return to_ + variable.substr(from_.size());
    case Kind::kPattern:
      break;
  }
  std::smatch match;
  if (!std::regex_match(variable, match, std::regex(from_))) return std::nullopt;
  return match.format(to_);
}

RestoreReport restore_variables(std::span<const NamedTensor> tensors, std::string_view source,
                                std::span<const Variable> variables,
                                const RestoreOptions& options) {
  const auto replica = static_cast<std::size_t>(base::AmbientIndex::kReplica);
  check_state(base::ambient().slots[replica] == nullptr,
              "restore: called inside a replica; call it outside of Strategy::run");
  const std::vector<Variable> wanted = chosen(variables, options);
  check_flattened_names(wanted, options);
  Plan plan = make_plan(stored_of(tensors, options), wanted, options);
  check(plan, source, options);
  for (const std::string& each : plan.missing) {
    base::log_warning("Checkpoint is missing variable ", each, " (", source, ")");
  }
  for (const Match& each : plan.matches) each.variable->assign(each.value);
  return std::move(plan.report);
}

RestoreReport restore_variables(const Checkpoint& checkpoint, std::span<const Variable> variables,
                                const RestoreOptions& options) {
  return restore_variables(checkpoint.tensors(), checkpoint.path().string(), variables, options);
}

}  // namespace brigade::checkpoint

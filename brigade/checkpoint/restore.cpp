#include "brigade/checkpoint/restore.h"

#include <algorithm>
#include <map>
#include <optional>
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
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("restore: no variable is in the scope ", base::quoted(scope),
                        base::did_you_mean(scope, names)));
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

using Stored = std::map<std::string_view, const at::Tensor*>;

struct Match {
  const Variable* variable;
  std::string stored;
  at::Tensor value;
};

/// The planned assignments, all of them checked.
struct Plan {
  std::vector<Match> matches;
  RestoreReport report;
};

std::string missing_message(const Variable& variable, std::string_view stored_name,
                            std::string_view source) {
  return str_cat(
      "Checkpoint is missing variable [", variable.name(), "]",
      stored_name == variable.name() ? "" : str_cat(", stored as ", base::quoted(stored_name)),
      " (", source, ")");
}

at::Tensor checked(const Variable& variable, const at::Tensor& value, std::string_view stored_name,
                   const RestoreOptions& options, std::string_view source) {
  const bool is_reshaped = options.shapes == Shapes::kReshape && value.numel() == variable.numel();
  if (value.scalar_type() == variable.dtype() && (is_reshaped || value.sizes() == variable.shape()))
    return value.reshape(variable.shape());
  throw Error(
      ErrorCode::kInvalidArgument,
      str_cat("restore: variable ", base::quoted(variable.name()), " is ",
              form_of(variable.dtype(), variable.shape()), " and ", base::quoted(stored_name),
              " in ", source, " is ", form_of(value.scalar_type(), value.sizes())));
}

/// The partition's part of the whole variable `value`.
at::Tensor checked_part(const Variable& variable, const at::Tensor& value,
                        std::string_view stored_name, std::string_view source) {
  const variables::VariableSlice& slice = *variable.slice();
  if (value.scalar_type() == variable.dtype() && value.sizes() == at::IntArrayRef(slice.shape)) {
    const auto axis = static_cast<std::size_t>(slice.axis);
    return variables::part_of_whole(value, slice, variable.shape()[axis]);
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      str_cat("restore: variable ", base::quoted(slice.whole), ", which is partitioned, is ",
              form_of(variable.dtype(), slice.shape), " and ", base::quoted(stored_name), " in ",
              source, " is ", form_of(value.scalar_type(), value.sizes())));
}

/// What is stored of the variable, under any of its names.
std::optional<Match> match_of(const Stored& stored, std::string_view source,
                              const Variable& variable, const RestoreOptions& options) {
  for (const std::string& name : stored_names(variable, options)) {
    const auto found = stored.find(name);
    if (found == stored.end()) continue;
    return Match{&variable, name, checked(variable, *found->second, name, options, source)};
  }
  const auto whole = stored_whole(variable, options);
  if (!whole || !stored.contains(*whole)) return std::nullopt;
  return Match{&variable, *whole, checked_part(variable, *stored.at(*whole), *whole, source)};
}

Plan make_plan(const Stored& stored, std::string_view source, std::span<const Variable> wanted,
               const RestoreOptions& options) {
  Plan plan;
  std::set<std::string_view> unused;
  for (const auto& [name, tensor] : stored) unused.insert(name);
  for (const Variable& variable : wanted) {
    std::optional<Match> match = match_of(stored, source, variable, options);
    if (!match) {
      const std::string message =
          missing_message(variable, stored_names(variable, options).front(), source);
      if (options.missing == Missing::kRefuse) throw Error(ErrorCode::kNotFound, message);
      base::log_warning(message);
      plan.report.missing_in_checkpoint.push_back(variable.name());
      continue;
    }
    plan.report.restored.push_back({variable.name(), match->stored});
    unused.erase(match->stored);
    plan.matches.push_back(*std::move(match));
  }
  plan.report.unused_in_checkpoint.assign(unused.begin(), unused.end());
  return plan;
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
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("Rename: ", base::quoted(expression),
                        " is not a valid regular expression: ", error.what()));
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
  Stored stored;
  for (const NamedTensor& each : tensors) stored.emplace(each.name, &each.tensor);
  const std::vector<Variable> wanted = chosen(variables, options);
  Plan plan = make_plan(stored, source, wanted, options);
  for (const Match& each : plan.matches) each.variable->assign(each.value);
  return std::move(plan.report);
}

RestoreReport restore_variables(const Checkpoint& checkpoint, std::span<const Variable> variables,
                                const RestoreOptions& options) {
  return restore_variables(checkpoint.tensors(), checkpoint.path().string(), variables, options);
}

}  // namespace brigade::checkpoint

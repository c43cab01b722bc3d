#include "apps/brigade/fine_tuning_flags.h"

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/json_values.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/slim/assign_from_checkpoint.h"

namespace brigade::command {
namespace {

/// One group for each pattern, so that one that matches nothing is found.
std::vector<optim::ParameterGroup> group_each(const std::vector<std::string>& patterns) {
  std::vector<optim::ParameterGroup> groups;
  for (const std::string& pattern : patterns)
    groups.push_back({.names = {pattern}, .frozen = true});
  return groups;
}

/// A model directory stands for the weights of its training.
io::Path weights_at(const io::Path& path) {
  const io::Path saved = path / "weights.safetensors";
  return io::posix_file_system()->exists(saved) ? saved : path;
}

/// Throws UsageError for a pattern that matches no variable.
std::vector<variables::Variable> without(std::span<const variables::Variable> variables,
                                         const char* flag,
                                         const std::vector<std::string>& patterns) {
  try {
    const auto matched = optim::assign_groups(variables, group_each(patterns));
    std::vector<variables::Variable> rest;
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (!matched[i].frozen) rest.push_back(variables[i]);
    return rest;
  } catch (const Error& error) {
    throw UsageError(base::str_cat(flag, ": ", error.what()));
  }
}

}  // namespace

std::vector<std::string> parse_patterns(const char* flag, const std::string& text) {
  std::vector<std::string> patterns;
  for (const std::string& part : base::split(text, ',')) {
    const std::string pattern(base::trim(part));
    if (pattern.empty()) {
      throw UsageError(base::str_cat(flag, " is ", base::quoted(text),
                                     "; give names separated by commas, with * for any "
                                     "characters, such as \"conv1/*,*/biases\""));
    }
    patterns.push_back(pattern);
  }
  return patterns;
}

void FineTuningFlags::add_to(CLI::App& app) {
  FlagGroup group(app, "Fine-tuning");
  group
      .add("--init-from", init_from,
           "Weights to begin a new training with: a checkpoint, a model directory, a safetensors "
           "file, or one saved by PyTorch")
      ->option_text("PATH");
  group
      .add("--init-exclude", init_exclude,
           "Variables that are not set by --init-from, such as those of a new last layer: names "
           "separated by commas, * for any characters")
      ->option_text("NAMES");
  group
      .add("--freeze", freeze,
           "Variables that are not trained: names separated by commas, * for any characters")
      ->option_text("NAMES");
}

void FineTuningFlags::check() const {
  if (init_exclude) {
    parse_patterns("--init-exclude", *init_exclude);
    if (!init_from) throw UsageError("--init-exclude needs --init-from, the weights to begin with");
  }
  if (freeze) parse_patterns("--freeze", *freeze);
}

void FineTuningFlags::initialize(std::span<const variables::Variable> variables) const {
  if (!init_from) return;
  const std::vector<variables::Variable> wanted = without(
      variables, "--init-exclude",
      init_exclude ? parse_patterns("--init-exclude", *init_exclude) : std::vector<std::string>());
  if (wanted.empty()) throw UsageError("--init-exclude leaves no variable for --init-from");
  slim::assign_from_checkpoint(weights_at(*init_from), wanted);
  base::log_info(base::str_cat("begins with ", wanted.size(), " of ", variables.size(),
                               " variables from ", *init_from));
}

std::vector<optim::ParameterGroup> FineTuningFlags::groups() const {
  if (!freeze) return {};
  return group_each(parse_patterns("--freeze", *freeze));
}

void FineTuningFlags::describe(Json& configuration) const {
  configuration["init_from"] = number_or_null(init_from);
  configuration["init_exclude"] = number_or_null(init_exclude);
  configuration["freeze"] = number_or_null(freeze);
}

}  // namespace brigade::command

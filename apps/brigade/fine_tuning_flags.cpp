#include "apps/brigade/fine_tuning_flags.h"

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "apps/brigade/initial_weights.h"
#include "apps/brigade/json_values.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/weights_file.h"

namespace brigade::command {
namespace {

/// One group for each pattern, so that one that matches nothing is found.
std::vector<optim::ParameterGroup> group_each(const std::vector<std::string>& patterns) {
  std::vector<optim::ParameterGroup> groups;
  for (const std::string& pattern : patterns)
    groups.push_back({.names = {pattern}, .frozen = true});
  return groups;
}

/// The names of the variables that match. Throws UsageError for a pattern that matches none.
std::vector<std::string> matching(std::span<const variables::Variable> variables, const char* flag,
                                  const std::vector<std::string>& patterns) {
  try {
    const auto matched = optim::assign_groups(variables, group_each(patterns));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (matched[i].frozen) names.push_back(variables[i].name());
    return names;
  } catch (const Error& error) {
    throw UsageError(flag, ": ", error.what());
  }
}

}  // namespace

std::vector<std::string> parse_patterns(const char* flag, const std::string& text) {
  std::vector<std::string> patterns;
  for (const std::string& part : base::split(text, ',')) {
    const std::string pattern(base::trim(part));
    if (pattern.empty()) {
      throw UsageError(flag, " is ", base::quoted(text),
                       "; give names separated by commas, with * for any characters, such as "
                       "\"conv1/*,*/biases\"");
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
           "file, or one saved by PyTorch, also with torchvision's names")
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

void FineTuningFlags::choose_original(ModelFlags& model) const {
  if (!init_from || model.model != "inception_v3" || model.original) return;
  const auto files = io::posix_file_system();
  if (!files->exists(*init_from) && !checkpoint::is_weights_file(*files, *init_from)) return;
  model.set_original(InitialWeights(*init_from).original(model.model));
}

void FineTuningFlags::initialize(std::span<const variables::Variable> variables,
                                 const std::string& model) const {
  if (!init_from) return;
  std::vector<std::string> excluded;
  if (init_exclude)
    excluded =
        matching(variables, "--init-exclude", parse_patterns("--init-exclude", *init_exclude));
  if (excluded.size() == variables.size())
    throw UsageError("--init-exclude leaves no variable for --init-from");
  InitialWeights(*init_from).assign(variables, model, excluded);
  base::log_info("begins with ", variables.size() - excluded.size(), " of ", variables.size(),
                 " variables from ", *init_from);
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

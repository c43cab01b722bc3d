#include "apps/brigade/sweep_plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/flag_group.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"

namespace brigade::command {
namespace {

constexpr std::size_t kMostTrials = 10'000;

/// What a sweep decides for its trials.
const std::set<std::string>& own_flags() {
  static const std::set<std::string> kNames = {"config",     "strategy",  "devices", "model-dir",
                                               "resume",     "overwrite", "json",    "log-every",
                                               "controller", "cluster",   "task",    "key-file"};
  return kNames;
}

struct Parameter {
  std::string name;  // with underscores
  std::vector<std::string> values;
};

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

[[noreturn]] void refuse_parameter(const std::string& parameter, const std::string& why) {
  throw UsageError("--param ", base::quoted(parameter), ": ", why);
}

std::vector<std::string> names_of_parameters(CLI::App& train) {
  std::vector<std::string> names;
  for (const CLI::Option* option : train.get_options()) {
    const bool takes_value = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_lnames())
      if (takes_value && name != "help" && !own_flags().contains(name))
        names.push_back(with_underscores(name));
  }
  return names;
}

std::vector<std::string> split_values(const std::string& parameter, const std::string& text) {
  std::vector<std::string> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string value = text.substr(begin, end - begin);
    if (value.empty()) refuse_parameter(parameter, "a value is empty; write NAME=VALUE,VALUE,...");
    if (std::find(values.begin(), values.end(), value) != values.end())
      refuse_parameter(parameter,
                       base::str_cat("the value ", base::quoted(value), " is given twice"));
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

Parameter parse_parameter(const std::string& text, const std::vector<std::string>& known) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse_parameter(text, "write NAME=VALUE,VALUE,...");
  const std::string name = with_underscores(text.substr(0, equals));
  if (own_flags().contains(with_dashes(name)))
    refuse_parameter(text, base::str_cat("the sweep itself sets ", base::quoted(with_dashes(name)),
                                         "; it cannot differ between trials"));
  if (std::find(known.begin(), known.end(), name) == known.end())
    refuse_parameter(text, base::str_cat("no flag of `brigade train` with a value is called ",
                                         base::quoted(name), base::did_you_mean(name, known)));
  return {name, split_values(text, text.substr(equals + 1))};
}

std::vector<Parameter> parse_all(const CLI::App& parser, const std::vector<std::string>& texts,
                                 const std::vector<std::string>& known) {
  if (texts.empty())
    throw UsageError(
        "no --param is given: a sweep needs at least one, as in --param learning_rate=0.1,0.01");
  std::vector<Parameter> all;
  for (const std::string& text : texts) {
    Parameter parameter = parse_parameter(text, known);
    for (const Parameter& other : all)
      if (other.name == parameter.name) refuse_parameter(text, "the parameter is given twice");
    if (parser.get_option("--" + with_dashes(parameter.name))->count() > 0)
      refuse_parameter(text, base::str_cat("--", with_dashes(parameter.name), " is given, too"));
    all.push_back(std::move(parameter));
  }
  return all;
}

/// `flags` with the values of the parameters, as if they had been on the command line.
TrainFlags with_parameters(const TrainFlags& flags, const PlannedTrial& trial) {
  TrainFlags changed = flags;
  CLI::App app;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  changed.add_to(app);
  std::vector<std::string> arguments;
  for (const auto& [name, value] : trial.parameters)
    arguments.push_back(base::str_cat("--", with_dashes(name), "=", value));
  std::reverse(arguments.begin(), arguments.end());  // as the parser takes them
  try {
    app.parse(arguments);
    changed.strategy.check();
    changed.check();
    changed.optimizer.rule();
  } catch (const CLI::ParseError& error) {
    throw UsageError("with ", trial.label(), ": ", parser_text(error));
  } catch (const UsageError& error) {
    throw UsageError("with ", trial.label(), ": ", error.what());
  } catch (const Error& error) {
    throw UsageError("with ", trial.label(), ": ", error.what());
  }
  return changed;
}

std::size_t combinations(const std::vector<Parameter>& parameters) {
  std::size_t count = 1;
  for (const Parameter& parameter : parameters) {
    count *= parameter.values.size();
    if (count > kMostTrials)
      throw UsageError("the parameters have more than ", kMostTrials, " combinations");
  }
  return count;
}

}  // namespace

std::string PlannedTrial::label() const {
  std::vector<std::string> words;
  for (const auto& [name, value] : parameters) words.push_back(base::str_cat(name, "=", value));
  return base::join(words, " ");
}

std::vector<PlannedTrial> plan_sweep(const CLI::App& parser, const TrainFlags& flags,
                                     const std::vector<std::string>& parameters) {
  TrainFlags unused;
  CLI::App train;
  unused.add_to(train);
  const auto all = parse_all(parser, parameters, names_of_parameters(train));
  std::vector<PlannedTrial> trials(combinations(all));
  for (std::size_t index = 0; index < trials.size(); ++index) {
    PlannedTrial& trial = trials[index];
    std::size_t rest = index;
    for (auto parameter = all.rbegin(); parameter != all.rend(); ++parameter) {
      const std::size_t count = parameter->values.size();
      trial.parameters.insert(trial.parameters.begin(),
                              {parameter->name, parameter->values[rest % count]});
      rest /= count;
    }
    trial.flags = with_parameters(flags, trial);
    std::string& model_dir = trial.flags.checkpoints.model_dir;
    if (!model_dir.empty())
      model_dir = (io::Path(model_dir) / base::str_cat("trial-", index)).string();
  }
  return trials;
}

std::vector<std::string> common_arguments(const CLI::App& parser) {
  TrainFlags unused;
  CLI::App train;
  unused.add_to(train);
  std::vector<std::string> arguments;
  for (const CLI::Option* option : parser.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    const bool is_passed_on = name == "overwrite" || name == "resume";
    const bool is_of_train = train.get_option_no_throw("--" + name) != nullptr;
    if (!is_of_train || (own_flags().contains(name) && !is_passed_on)) continue;
    const bool takes_value = option->get_items_expected_max() > 0;
    arguments.push_back(
        takes_value ? base::str_cat("--", name, "=", base::join(option->reduced_results(), ","))
                    : "--" + name);
  }
  return arguments;
}

}  // namespace brigade::command

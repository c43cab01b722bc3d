#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/brigade/model_flags.h"
#include "apps/brigade/report.h"
#include "brigade/optim/parameter_group.h"
#include "brigade/variables/variable.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags of a training that begins with the weights of another one.
struct FineTuningFlags {
  std::optional<std::string> init_from;
  std::optional<std::string> init_exclude;
  std::optional<std::string> freeze;

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check() const;
  /// Makes the model the original that the weights are of, where they exist and a model has
  /// several: before the model is made.
  void choose_original(ModelFlags& model) const;
  /// Sets the variables of the model that are not excluded to the values in the file. Throws
  /// UsageError, which lists the differences, if names or shapes differ, or nothing is left to set.
  void initialize(std::span<const variables::Variable> variables, const std::string& model) const;
  /// The group of the frozen variables; nothing without the flag.
  std::vector<optim::ParameterGroup> groups() const;
  /// Adds the keys of the flags to a configuration.
  void describe(Json& configuration) const;
};

/// The patterns of a flag: names separated by commas, with `*` for any characters.
std::vector<std::string> parse_patterns(const char* flag, const std::string& text);

}  // namespace brigade::command

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/brigade/train_flags.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// One training of a sweep.
struct PlannedTrial {
  /// The names of the flags without dashes in front, with underscores: {"learning_rate", "0.1"}.
  std::vector<std::pair<std::string, std::string>> parameters;
  TrainFlags flags;

  /// "learning_rate=0.1 batch_size=32"
  std::string label() const;
};

/// The trainings of a grid: one for each combination of the parameters' values, the values of the
/// last parameter changing fastest. Each of `parameters` is NAME=VALUE,VALUE,...; a name is that of
/// a flag of `brigade train` that takes a value. `parser` has parsed `flags`, which all trials have
/// in common. If they have a model directory, each trial has its own inside: trial-0, trial-1.
/// Throws UsageError for a name that is not known, is set by the sweep itself, or was given as a
/// flag too; for a name or value that is empty or given twice; and for values that cannot work.
std::vector<PlannedTrial> plan_sweep(const CLI::App& parser, const TrainFlags& flags,
                                     const std::vector<std::string>& parameters);

/// The flags that `parser` was given, for a `brigade train` of the same: "--epochs=2". Without
/// those that are not of `brigade train`, that the sweep sets, or that are for its own output.
std::vector<std::string> common_arguments(const CLI::App& parser);

}  // namespace brigade::command

#pragma once

#include <optional>

#include "apps/brigade/report.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags of what a training step does beside the gradient's update.
struct StepFlags {
  double label_smoothing = 0.0;
  std::optional<double> clip_norm;
  std::optional<double> ema;

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check() const;
  /// Adds the keys of the flags to a configuration.
  void describe(Json& configuration) const;
};

}  // namespace brigade::command

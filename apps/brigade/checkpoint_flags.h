#pragma once

#include <cstdint>
#include <optional>

#include "brigade/train/session.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags that say how often a training is saved and reported while it goes on.
struct CheckpointFlags {
  std::optional<std::int64_t> save_steps;
  std::optional<double> save_seconds;
  std::int64_t keep = 5;
  std::int64_t summary_steps = 100;

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check() const;
  /// Checkpoints every ten minutes if nothing is said; event files beside them.
  train::SessionOptions session_options(const io::Path& model_dir) const;
};

}  // namespace brigade::command

#pragma once

#include <optional>
#include <string>

#include "brigade/train/hooks/profiler_hook.h"
#include "brigade/train/session/session.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags of progress reports, summaries, profiles and evaluations of a training.
struct WatchFlags {
  std::optional<std::string> summaries_every;
  std::optional<std::string> profile_steps;
  std::optional<std::string> eval_every;
  std::string eval = "end";
  std::optional<double> log_every;

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check(const std::string& model_dir) const;
  /// How often the training is interrupted for an evaluation.
  train::Every evaluations() const;
  bool evaluates_at_end() const { return eval == "end"; }
  std::optional<train::StepRange> profiled() const;
  /// Event files and the profile, below `model_dir`; nothing if it is empty.
  void add_to(train::SessionOptions& options, const io::Path& model_dir) const;
};

}  // namespace brigade::command

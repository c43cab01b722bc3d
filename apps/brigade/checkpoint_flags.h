#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/brigade/run_directory.h"
#include "brigade/train/session/session.h"

namespace CLI {
class App;
}

namespace brigade::command {

/// The flags that say where a training is saved, how often, and what it resumes from.
struct CheckpointFlags {
  std::string model_dir;
  std::optional<std::string> save_every;
  std::optional<std::int64_t> keep_last;
  std::optional<std::string> writers;
  std::string resume = "auto";
  bool overwrite = false;

  void add_to(CLI::App& app);
  /// Throws UsageError.
  void check() const;
  /// What to do with a run that is already in the model directory.
  ExistingRun existing_run() const;
  /// The checkpoint, or the run, that `--resume` names.
  std::optional<io::Path> resume_path() const;
  /// Checkpoints every ten minutes by default; none without a model directory. No summaries and no
  /// log lines.
  train::SessionOptions session_options() const;
};

}  // namespace brigade::command

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/brigade/data_flags.h"
#include "apps/brigade/fine_tuning_flags.h"
#include "apps/brigade/model_flags.h"
#include "apps/brigade/run_directory.h"
#include "apps/brigade/schedule_flags.h"
#include "apps/brigade/step_flags.h"
#include "apps/brigade/strategy_flags.h"
#include "brigade/train/hooks/profiler_hook.h"
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
  /// Event files below `model_dir`; nothing if it is empty.
  void add_to(train::SessionOptions& options, const io::Path& model_dir) const;
  /// The profile below `model_dir`; nothing if it is empty.
  void add_profile_to(train::SessionOptions& options, const io::Path& model_dir) const;
};

/// All flags of `brigade train`.
struct TrainFlags {
  std::string config;  // read before the others: `with_config_file`
  ModelFlags model;
  DataFlags data;
  PipelineFlags pipeline;
  BatchFlags batch;
  StrategyFlags strategy;
  OptimizerFlags optimizer;
  ScheduleFlags schedule;
  StepFlags step;
  FineTuningFlags fine_tuning;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::int64_t accumulate = 1;
  std::string auto_shard = "auto";
  CheckpointFlags checkpoints;
  WatchFlags watch;
  OutputFlag output;

  void add_to(CLI::App& app);
  /// Throws UsageError for flags that cannot work, alone or together. Reads no file.
  void check() const;
};

/// The evaluator of a cluster (the task of that type in `TF_CONFIG`). It takes no part in the
/// workers' collectives. On one device, it evaluates each checkpoint that the training writes into
/// its model directory, and ends when the training has ended. Its results go to the event files in
/// `eval/`, and to standard output with --json. Returns the exit code.
int run_evaluator(const TrainFlags& flags);

}  // namespace brigade::command

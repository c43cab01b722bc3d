#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/brigade/checkpoint_flags.h"
#include "apps/brigade/data_flags.h"
#include "apps/brigade/model_flags.h"
#include "apps/brigade/optimizer_flags.h"
#include "apps/brigade/strategy_flags.h"
#include "apps/brigade/watch_flags.h"

namespace brigade::command {

/// All flags of `brigade train`.
struct TrainFlags {
  ModelFlags model;
  DataFlags data;
  PipelineFlags pipeline;
  BatchFlags batch;
  StrategyFlags strategy;
  OptimizerFlags optimizer;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::int64_t accumulate = 1;
  CheckpointFlags checkpoints;
  WatchFlags watch;
  bool json = false;

  void add_to(CLI::App& app);
  /// Throws UsageError for flags that cannot work, alone or together. Reads no file.
  void check() const;
};

}  // namespace brigade::command

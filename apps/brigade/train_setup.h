#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "apps/brigade/run_directory.h"
#include "apps/brigade/train_flags.h"
#include "brigade/data/dataset.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/optim/update_rule.h"

namespace brigade::command {

using Batches = data::Dataset<input::LabeledBatch>;

/// All that a training needs, checked; nothing has been written yet.
struct Prepared {
  optim::UpdateRulePtr rule;
  std::optional<RunDirectory> directory;
  std::unique_ptr<distribute::Strategy> strategy;
  std::int64_t global_batch = 0;
  std::optional<Batches> train;
  std::optional<Batches> test;
  /// What the training is asked to be in all, if that is known.
  std::optional<Length> length;
  /// What the run began with when it was new, as an absolute path (`--resume PATH`); empty:
  /// nothing.
  std::string started_from;
  /// The checkpoint of another run to begin with; unset: as the model directory has it.
  std::optional<io::Path> resume_from;
  /// Of the first examples as they are read, where several workers must read the same; else empty.
  std::string data_sha256;
};

/// Checks the flags and the model directory, makes the strategy and reads the data, the quick
/// things first. Throws UsageError, and Error for what the data files hold.
Prepared prepare(const TrainFlags& flags);

/// How many steps the training will take, if that is known.
std::optional<std::int64_t> steps_in_all(const TrainFlags& flags, const Prepared& prepared);

}  // namespace brigade::command

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

/// Everything that a training needs, checked; nothing has been written yet.
struct Prepared {
  optim::UpdateRulePtr rule;
  std::optional<RunDirectory> directory;
  std::unique_ptr<distribute::Strategy> strategy;
  std::int64_t global_batch = 0;
  std::optional<Batches> train;
  std::optional<Batches> test;
  /// The total length of the training, if that is known.
  std::optional<Length> length;
  /// The checkpoint from which the run started when it was new, as an absolute path
  /// (`--resume PATH`); empty: none.
  std::string started_from;
  /// The checkpoint of another run to start from; unset: the model directory's own, if any.
  std::optional<io::Path> resume_from;
  /// Of the first examples, if several workers must read the same ones; else empty.
  std::string data_sha256;
};

/// Checks the flags and the model directory, makes the strategy and reads the data, quick checks
/// first. Throws UsageError, and Error for broken data files.
Prepared prepare(const TrainFlags& flags);

/// How many steps the training will take, if that is known.
std::optional<std::int64_t> steps_in_all(const TrainFlags& flags, const Prepared& prepared);

}  // namespace brigade::command

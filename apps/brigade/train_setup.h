#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "apps/brigade/device_normalization.h"
#include "apps/brigade/report.h"
#include "apps/brigade/run_directory.h"
#include "apps/brigade/train_flags.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/dataset.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/optim/schedule.h"
#include "brigade/optim/update_rule.h"

namespace brigade::command {

using Batches = data::Dataset<input::LabeledBatch>;

/// Everything that a training needs, checked; nothing has been written yet.
struct Prepared {
  optim::UpdateRulePtr rule;
  /// The images of the data.
  ImageInput image;
  std::optional<RunDirectory> directory;
  std::unique_ptr<distribute::Strategy> strategy;
  /// Of the strategy.
  ServerAccess access;
  /// Whether this is the chief of a job that is in progress on the parameter servers: it continues.
  bool is_in_progress = false;
  std::int64_t global_batch = 0;
  /// Of the batches, on the replicas' devices; null: none is needed.
  ReplicaNormalizer normalizer;
  std::optional<Batches> train;
  std::optional<Batches> test;
  /// The last step, if steps end the training: those of `--steps`, or of all epochs together if
  /// workers without collectives make them.
  std::optional<std::int64_t> steps;
  /// Of the learning rate; null: constant.
  optim::SchedulePtr schedule;
  /// The training examples of an epoch; below 0: not known.
  std::int64_t examples_in_pass = 0;
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
/// first. Throws UsageError, and Error for broken data files. With `examples`, these are the
/// training split, shuffled and augmented.
Prepared prepare(const TrainFlags& flags,
                 const std::optional<data::Dataset<input::LabeledExample>>& examples = {});

/// How many steps the training will take, if that is known.
std::optional<std::int64_t> steps_in_all(const TrainFlags& flags, const Prepared& prepared);

/// Checks that all workers were started for the same training, before anything is written. They
/// compare everything that determines values or collectives (model, data, optimizer, steps,
/// evaluations, checkpoints, the version of the program). File locations, threads and logging may
/// differ. A collective of the workers; throws kInvalidArgument in all of them, naming the first
/// difference with both values.
void check_same_training(const TrainFlags& flags, const Prepared& prepared,
                         const Json& configuration);

/// Checks that all workers end with the same weights. Throws in all of them, including the chief.
/// A collective.
void check_same_weights(const distribute::Strategy& strategy, const std::string& weights_sha256);

}  // namespace brigade::command

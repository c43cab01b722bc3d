#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "brigade/data/dataset.h"
#include "brigade/distribute/optimizer/parallel_optimization.h"

namespace brigade::train {

/// One training step: returns its mean loss, or nothing at the end of the data.
using UpdateFunction = std::function<std::optional<at::Tensor>()>;

/// Options of `do_training`.
struct DoTrainingOptions {
  /// The number of steps from one report to the next; the first step is reported.
  std::int64_t log_every = 100;
  /// The maximum number of steps. Unset: until the end of the data.
  std::optional<std::int64_t> steps = std::nullopt;
  /// Called for each report. Empty: writes a line to the log, "Step 100 with loss 0.0781".
  std::function<void(std::int64_t step, double loss)> report = {};
};

/// How `do_training` ended.
struct DoTrainingResult {
  std::int64_t steps = 0;
  /// Unset if there was no step.
  std::optional<double> first_loss;
  std::optional<double> final_loss;
};

/// Calls `update` until it returns nothing: the plain training loop of tutorials, without
/// checkpoints and summaries. Waits for the devices only when a loss is reported. Throws
/// kInvalidArgument unless `log_every` is positive, and kDataLoss, with the step, for a reported
/// loss that is not finite.
///
/// Thread-safety: `update` is called on the calling thread.
DoTrainingResult do_training(const UpdateFunction& update, const DoTrainingOptions& options = {});

/// Trains `model_fn` on all towers until the end of `dataset`, whose elements are batches for one
/// tower: two towers take half as many steps as one for the same data. This is the function of the
/// tutorial on in-graph replication; with one device in `options.devices` it is the serial version.
/// Throws as `create_parallel_optimization` and `do_training`.
template <class B, class Rule>
DoTrainingResult parallel_training(distribute::ModelFunction<B> model_fn,
                                   const data::Dataset<B>& dataset, const Rule& rule,
                                   distribute::TowerOptions options = {},
                                   const DoTrainingOptions& loop = {}) {
  auto iterator = std::make_shared<data::Iterator<B>>(dataset.iterator({.seed = options.seed}));
  auto towers = distribute::create_parallel_optimization<B>(
      std::move(model_fn), [iterator] { return iterator->next(); }, rule, std::move(options));
  return do_training([&] { return towers.update(); }, loop);
}

}  // namespace brigade::train

#pragma once

#include <utility>

#include "brigade/data/dataset.h"
#include "brigade/distribute/optimizer/parallel_optimization.h"
#include "brigade/train/session/do_training.h"

namespace brigade::train {

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

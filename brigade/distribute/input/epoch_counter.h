#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/data/core/pipeline_description.h"

namespace brigade::distribute {

/// The number of the next epoch of one dataset: every new iterator takes one, so that a shuffle
/// gives each its own order, as `DistributedSampler.set_epoch` does in PyTorch when it is called.
///
/// Thread-safety: all calls from any thread.
class EpochCounter {
 public:
  std::uint64_t take() { return next_.fetch_add(1); }
  /// An iterator has reached `epoch` by itself (`start_next_epoch`, `restore`): new ones come
  /// after.
  void record_epoch(std::uint64_t epoch);

 private:
  std::atomic<std::uint64_t> next_ = 0;
};

/// The epoch counters of the datasets that one strategy distributes, so that `distribute(dataset)`
/// inside the loop over epochs and outside of it give the same orders.
///
/// Thread-safety: one thread at a time.
class EpochCounters {
 public:
  /// The counter of this dataset, known by its first definition: copies of the handle count
  /// together. A dataset that is made anew with the same recipe begins at epoch 0; if it shuffles,
  /// the log warns once that its order is repeated.
  std::shared_ptr<EpochCounter> of(const std::shared_ptr<const void>& dataset,
                                   const data::PipelineDescription& pipeline);

 private:
  struct Entry {
    std::weak_ptr<const void> dataset;
    std::string pipeline;  // of those that shuffle
    std::shared_ptr<EpochCounter> counter;
  };
  void warn_if_repeated(const std::string& pipeline);

  std::vector<Entry> entries_;
  std::vector<std::string> warned_;  // recipes
};

}  // namespace brigade::distribute

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/data/core/pipeline_description.h"

namespace brigade::distribute {

/// Counts the epochs of one dataset: every new iterator takes the next number, so that a shuffle
/// has another order in each epoch. PyTorch needs a call of `DistributedSampler.set_epoch` for
/// this.
///
/// Thread-safety: all calls from any thread.
class EpochCounter {
 public:
  std::uint64_t take() { return next_.fetch_add(1); }
  /// Records that an iterator has reached `epoch` (by `start_next_epoch` or `restore`): new
  /// iterators get later epochs.
  void record_epoch(std::uint64_t epoch);

 private:
  std::atomic<std::uint64_t> next_ = 0;
};

/// The epoch counters of the datasets that one strategy distributes. They make
/// `distribute(dataset)` give the same orders inside the loop over epochs and before it.
///
/// Thread-safety: one thread at a time.
class EpochCounters {
 public:
  /// The counter of this dataset. Copies of one dataset handle have one counter. A new dataset with
  /// an equal pipeline starts at epoch 0; if it shuffles, a warning is logged once, because its
  /// order repeats.
  std::shared_ptr<EpochCounter> of(const std::shared_ptr<const void>& dataset,
                                   const data::PipelineDescription& pipeline);

 private:
  struct Entry {
    std::weak_ptr<const void> dataset;
    std::string pipeline;  // its description, if it shuffles
    std::shared_ptr<EpochCounter> counter;
  };
  void warn_if_repeated(const std::string& pipeline);

  std::vector<Entry> entries_;
  std::vector<std::string> warned_;  // pipelines
};

}  // namespace brigade::distribute

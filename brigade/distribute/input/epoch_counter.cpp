#include "brigade/distribute/input/epoch_counter.h"

#include <algorithm>

#include "brigade/base/log.h"

namespace brigade::distribute {

namespace {

bool shuffles(const data::PipelineDescription& pipeline) {
  return std::ranges::any_of(
      pipeline, [](const data::PipelineStep& step) { return step.text.starts_with("shuffle("); });
}

bool is_same(const std::weak_ptr<const void>& known, const std::shared_ptr<const void>& dataset) {
  return !known.owner_before(dataset) && !dataset.owner_before(known);
}

}  // namespace

void EpochCounter::record_epoch(std::uint64_t epoch) {
  std::uint64_t next = next_.load();
  while (next <= epoch && !next_.compare_exchange_weak(next, epoch + 1)) {
  }
}

std::shared_ptr<EpochCounter> EpochCounters::of(const std::shared_ptr<const void>& dataset,
                                                const data::PipelineDescription& pipeline) {
  for (const Entry& entry : entries_) {
    if (is_same(entry.dataset, dataset)) return entry.counter;
  }
  const std::string shuffled = shuffles(pipeline) ? data::describe(pipeline) : std::string();
  if (!shuffled.empty()) warn_if_repeated(shuffled);
  // Of datasets that are gone, keep one entry per shuffling pipeline.
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.dataset.expired() && (entry.pipeline.empty() || entry.pipeline == shuffled);
  });
  entries_.push_back(
      {.dataset = dataset, .pipeline = shuffled, .counter = std::make_shared<EpochCounter>()});
  return entries_.back().counter;
}

void EpochCounters::warn_if_repeated(const std::string& pipeline) {
  if (std::ranges::find(warned_, pipeline) != warned_.end()) return;
  if (std::ranges::find(entries_, pipeline, &Entry::pipeline) == entries_.end()) return;
  warned_.push_back(pipeline);
  base::log_warning(
      "A dataset equal to an earlier one was created and distributed: ", pipeline,
      ". It starts at epoch 0 again, in the same order. Create the dataset once, before the loop "
      "over epochs: each distribute or range-for over it is then a new epoch with a new order.");
}

}  // namespace brigade::distribute

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/core/byte_size.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/runtime/stages.h"

namespace brigade::data {

/// How a step with threads takes part in measuring and tuning, seen from its consumer: it takes
/// changed settings from its `Stage`, and counts there the chunks that the consumer takes.
///
/// Thread-safety: the consumer's thread, but for `counters`.
class TunedStage {
 public:
  /// A null `stage`: nobody measures, and the settings stay `fixed`.
  TunedStage(std::shared_ptr<Stages> stages, Stage* stage, StageSettings fixed)
      : stages_(std::move(stages)), stage_(stage), fixed_(fixed) {}

  /// Null: count nothing.
  StageCounters* counters() const { return stage_ == nullptr ? nullptr : &stage_->counters; }

  /// The step's threads start, and with these settings; they have ended.
  StageSettings begin();
  void end();

  /// The settings, if they were changed since this was asked last.
  std::optional<StageSettings> changes();

  /// The consumer took a chunk. Now and then this measures the chunk and lets the walk be tuned.
  template <class T>
  void count_chunk(const std::vector<ElementResult<T>>& results) {
    if (stage_ == nullptr) return;
    // Where every step is counted, its elements are counted one by one.
    if (!stages_->counts_all()) stage_->counters.elements.add(results.size());
    if (!should_measure()) return;
    std::uint64_t bytes = 0;
    for (const ElementResult<T>& each : results) {
      if (each.element) bytes += ByteSize<T>::of(*each.element);
    }
    measure(bytes);
  }

 private:
  bool should_measure();
  void measure(std::uint64_t bytes_of_chunk);

  const std::shared_ptr<Stages> stages_;
  Stage* const stage_;
  const StageSettings fixed_;
  bool has_begun_ = false;
  std::uint64_t adopted_ = 0;  // the version of the settings
  std::uint64_t waited_ = 0;   // by the consumer, as of its last look
  std::uint64_t takes_since_measure_ = 0;
};

}  // namespace brigade::data

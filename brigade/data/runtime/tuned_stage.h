#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/core/byte_size.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/runtime/stages.h"

namespace brigade::data {

/// The measuring and tuning of a step with threads, on its consumer's side: reads changed settings
/// from the `Stage`, and records there the chunks that the consumer takes.
///
/// Thread-safety: the consumer's thread, but for `counters`.
class TunedStage {
 public:
  /// A null `stage`: nothing is measured, and the settings stay `fixed`.
  TunedStage(std::shared_ptr<Stages> stages, Stage* stage, StageSettings fixed)
      : stages_(std::move(stages)), stage_(stage), fixed_(fixed) {}

  /// Null: nothing is counted.
  StageCounters* counters() const { return stage_ == nullptr ? nullptr : &stage_->counters; }

  /// Call `begin` when the step's threads start, with the settings that it returns, and `end` when
  /// they have ended.
  StageSettings begin();
  void end();

  /// The settings, if they changed since the last call.
  std::optional<StageSettings> changes();

  /// Records a chunk that the consumer took. For some chunks, measures their bytes and tunes.
  template <class T>
  void count_chunk(const std::vector<ElementResult<T>>& results) {
    if (stage_ == nullptr) return;
    // If all steps are measured, `MeasuredIterator` counts the elements.
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
  std::uint64_t waited_ = 0;   // by the consumer, as of the last measurement
  std::uint64_t takes_since_measure_ = 0;
};

}  // namespace brigade::data

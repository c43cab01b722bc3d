#include "brigade/data/runtime/tuned_stage.h"

namespace brigade::data {

StageSettings TunedStage::begin() {
  if (stage_ == nullptr) return fixed_;
  stage_->begin();
  has_begun_ = true;
  adopted_ = stage_->version();
  return stage_->settings();
}

void TunedStage::end() {
  if (has_begun_) stage_->end();
  has_begun_ = false;
}

std::optional<StageSettings> TunedStage::changes() {
  if (stage_ == nullptr || stage_->version() == adopted_) return std::nullopt;
  adopted_ = stage_->version();
  return stage_->settings();
}

bool TunedStage::should_measure() {
  constexpr std::uint64_t kTakesPerMeasure = 8;
  const std::uint64_t waited = stage_->counters.consumer_waits.value();
  if (waited == waited_ && ++takes_since_measure_ < kTakesPerMeasure) return false;
  waited_ = waited;
  takes_since_measure_ = 0;
  return true;
}

void TunedStage::measure(std::uint64_t bytes_of_chunk) {
  stage_->counters.bytes.add(bytes_of_chunk);
  stage_->counters.sized_chunks.add(1);
  stages_->tick(Stages::Clock::now());
}

}  // namespace brigade::data

#include "brigade/train/graph/spans.h"

namespace brigade::train {

std::vector<summary::TraceEvent> Spans::stop() {
  is_recording_ = false;
  const concurrency::MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

void Spans::add(summary::TraceEvent event) {
  if (!is_recording_) return;
  const concurrency::MutexLock lock(mutex_);
  events_.push_back(std::move(event));
}

Spans::ScopedSpan::ScopedSpan(Spans& spans, std::string_view name, std::string_view category,
                              std::int64_t replica)
    : spans_(spans.is_recording_ ? &spans : nullptr) {
  if (spans_ == nullptr) return;
  event_.name = name;
  event_.category = category;
  event_.replica = replica;
  event_.begin = spans.now();
}

Spans::ScopedSpan::~ScopedSpan() {
  if (spans_ == nullptr) return;
  event_.duration = spans_->now() - event_.begin;
  spans_->add(std::move(event_));
}

}  // namespace brigade::train

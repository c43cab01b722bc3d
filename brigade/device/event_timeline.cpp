#include "brigade/device/event_timeline.h"

#include <utility>

#include "brigade/base/error.h"

namespace brigade::device {

EventTimeline::EventTimeline(c10::Stream stream) : stream_(stream) {
  check_argument(stream.device_type() != c10::kCPU,
                 "EventTimeline measures the work of a GPU's stream; a CPU's work is done when a "
                 "call returns, so measure it with a clock.");
}

void EventTimeline::mark() {
  if (unused_.empty()) {
    points_.emplace_back(stream_.device_type(), c10::EventFlag::BACKEND_DEFAULT);  // with times
  } else {
    points_.push_back(std::move(unused_.back()));
    unused_.pop_back();
  }
  points_.back().record(stream_);
}

std::optional<std::chrono::nanoseconds> EventTimeline::take() {
  if (points_.size() < 2 || !points_[0].query() || !points_[1].query()) return std::nullopt;
  const std::chrono::duration<double, std::milli> time(points_[0].elapsedTime(points_[1]));
  unused_.push_back(std::move(points_.front()));
  points_.pop_front();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time);
}

void EventTimeline::wait() const {
  if (!points_.empty()) points_.back().synchronize();
}

void EventTimeline::clear() {
  for (c10::Event& point : points_) unused_.push_back(std::move(point));
  points_.clear();
}

}  // namespace brigade::device

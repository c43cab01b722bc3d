#include "brigade/distribute/device_clock.h"

#include <algorithm>

#include "brigade/device/captured_graph.h"

namespace brigade::distribute {

using comm::StepPhase;
using std::chrono::nanoseconds;

DeviceClock::DeviceClock(c10::Stream stream) : device_(stream.device()), timeline_(stream) {}

void DeviceClock::begin_step(nanoseconds host_input) {
  const std::size_t failed = std::min(points_in_step_, intervals_.size());
  for (std::size_t i = intervals_.size() - failed; i < intervals_.size(); ++i)
    intervals_[i].counts = false;
  points_in_step_ = 0;
  // What was the time after the step before: the GPU was idle, or did other work.
  if (!intervals_.empty() && failed == 0)
    intervals_.back() = {.phase = StepPhase::kInput, .most = host_input};
  add({.phase = StepPhase::kInput});
}

void DeviceClock::entered(StepPhase phase) {
  if (device::is_capturing(device_)) return;  // the points would be part of the graph
  add({.phase = phase});
}

void DeviceClock::end_step() {
  add({.counts = false});
}

void DeviceClock::add(const Interval& interval) {
  timeline_.mark();
  intervals_.push_back(interval);
  ++points_in_step_;
}

comm::PerPhase<nanoseconds> DeviceClock::take() {
  comm::PerPhase<nanoseconds> times{};
  // The last interval has no end yet, and those of a step that may fail are kept.
  while (intervals_.size() > std::max<std::size_t>(points_in_step_, 1)) {
    const std::optional<nanoseconds> time = timeline_.take();
    if (!time) break;
    const Interval& interval = intervals_.front();
    if (interval.counts)
      times[static_cast<std::size_t>(interval.phase)] += std::min(*time, interval.most);
    intervals_.pop_front();
  }
  return times;
}

comm::PerPhase<nanoseconds> DeviceClock::take_all() {
  timeline_.wait();
  return take();
}

void DeviceClock::clear() {
  timeline_.clear();
  intervals_.clear();
  points_in_step_ = 0;
}

}  // namespace brigade::distribute

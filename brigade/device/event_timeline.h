#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace brigade::device {

/// Points in the work of a GPU's stream, and the time between them as the GPU measures it. The host
/// only queues the points; it waits in `wait` alone.
///
/// Thread-safety: one thread at a time.
class EventTimeline {
 public:
  /// Throws kInvalidArgument for a stream of a CPU, which has no events.
  explicit EventTimeline(c10::Stream stream);

  /// Adds a point after what is queued on the stream now.
  void mark();
  /// The points that were not taken.
  std::size_t size() const { return points_.size(); }
  /// The time between the two oldest points, of which the older one is dropped. Nothing if there
  /// are no two, or if the GPU has not reached the second.
  std::optional<std::chrono::nanoseconds> take();
  /// Returns when the GPU has reached all points.
  void wait() const;
  /// Drops all points.
  void clear();

 private:
  const c10::Stream stream_;
  std::deque<c10::Event> points_;
  std::vector<c10::Event> unused_;  // recorded again: making one takes longer
};

}  // namespace brigade::device

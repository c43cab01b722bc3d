#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "brigade/base/shared_segment.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/budget.h"

namespace brigade::rpc {

/// The shared memory of a listener's callers. It stays mapped for their next calls: to map it takes
/// longer than to copy a message. What a caller writes there may change at any time.
///
/// Thread-safety: all functions from any thread.
class CallerSegments {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit CallerSegments(std::size_t most_bytes) : most_bytes_(most_bytes), budget_(most_bytes) {}

  /// Throws as `base::SharedSegment::open`; kResourceExhausted if those that calls use at the
  /// moment have too many bytes beside it; kUnavailable if it has too many alone.
  std::shared_ptr<base::SharedSegment> open(const base::SegmentHandle& handle, std::size_t bytes)
      BRIGADE_EXCLUDES(mutex_);
  /// Frees those that no call uses or has opened since `time`.
  void forget_unused(Time time) BRIGADE_EXCLUDES(mutex_);
  std::size_t size() const BRIGADE_EXCLUDES(mutex_);

 private:
  struct Entry {
    base::SegmentHandle handle;
    Budget::Part part;
    std::shared_ptr<base::SharedSegment> segment;
    Time opened;
  };
  using Entries = std::vector<Entry>;

  std::shared_ptr<base::SharedSegment> find(const base::SegmentHandle& handle, std::size_t bytes)
      BRIGADE_EXCLUDES(mutex_);

  const std::size_t most_bytes_;
  Budget budget_;  // before the entries, which have parts of it
  mutable concurrency::Mutex mutex_;
  Entries entries_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::rpc

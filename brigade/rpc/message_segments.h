#pragma once

#include <cstddef>
#include <memory>

#include "brigade/base/shared_segment.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/budget.h"

namespace brigade::rpc {

/// The shared memory in which a client passes messages to listeners on its host: segments that are
/// used again, of a limited size together.
///
/// Thread-safety: all functions from any thread. What they return may outlive this.
class MessageSegments {
 public:
  /// A segment that one call uses. Destroyed without `keep`, its memory is not used again: a
  /// listener may still read or write it when a call has failed.
  class Loan {
   public:
    base::SharedSegment& segment() { return segment_; }

   private:
    friend class MessageSegments;
    Loan(Budget::Part part, base::SharedSegment segment)
        : part_(std::move(part)), segment_(std::move(segment)) {}
    Budget::Part part_;
    base::SharedSegment segment_;
  };

  explicit MessageSegments(std::size_t most_bytes);

  /// A segment of at least `bytes`. Nothing if all together would exceed the limit, or the system
  /// has no shared memory for it.
  std::unique_ptr<Loan> take(std::size_t bytes);
  /// The listener is done with the segment, which is used again once nobody has what this returns.
  std::shared_ptr<const void> keep(std::unique_ptr<Loan> loan);

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

}  // namespace brigade::rpc

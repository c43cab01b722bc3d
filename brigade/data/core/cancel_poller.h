#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/iterator_base.h"
#include "brigade/data/runtime/stage_counters.h"

namespace brigade::data::internal {

/// Looks at a walk's token now and then, for loops that may find nothing for long in an input that
/// waits for nothing.
///
/// Thread-safety: one thread at a time.
class CancelPoller {
 public:
  explicit CancelPoller(std::optional<concurrency::CancelToken> cancel)
      : cancel_(std::move(cancel)) {}

  /// To be called once for each element, before it is read. Throws kCancelled if the walk is
  /// cancelled.
  void poll() {
    if (++passed_ % kElementsPerPoll == 0 && is_cancelled()) {
      std::rethrow_exception(cancelled_error());
    }
  }
  bool is_cancelled() const { return cancel_ && cancel_->is_cancelled(); }

 private:
  /// Few enough for a slow input, and enough that looking costs next to nothing.
  static constexpr std::uint64_t kElementsPerPoll = 16;

  std::optional<concurrency::CancelToken> cancel_;
  std::uint64_t passed_ = 0;
};

/// Throws kCancelled if somebody has cancelled the walk.
inline void throw_if_cancelled(const std::optional<concurrency::CancelToken>& cancel) {
  if (cancel && cancel->is_cancelled()) std::rethrow_exception(cancelled_error());
}

/// Passes over up to `count` elements as `input.skip` does, in parts between which it looks at the
/// token: what a saved position asks for may be without end. Parts grow until one takes a while:
/// for inputs that skip at no cost, and since an input with threads may begin anew with each.
template <class T>
std::uint64_t cancellable_skip(IteratorBase<T>& input, std::uint64_t count,
                            const std::optional<concurrency::CancelToken>& cancel) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kAWhile = std::chrono::milliseconds(50);
  std::uint64_t part = std::uint64_t{1} << 10;
  std::uint64_t passed = 0;
  while (passed < count) {
    throw_if_cancelled(cancel);
    const auto begin = Clock::now();
    const std::uint64_t wanted = std::min(part, count - passed);
    const std::uint64_t done = input.skip(wanted);
    passed += done;
    if (done < wanted) break;
    if (Clock::now() - begin < kAWhile) part = saturating_multiply(part, 2);
  }
  return passed;
}

}  // namespace brigade::data::internal

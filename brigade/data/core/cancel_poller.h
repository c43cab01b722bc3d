#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/iterator_base.h"
#include "brigade/data/runtime/stage_counters.h"

namespace brigade::data::internal {

inline bool is_cancelled(const std::optional<concurrency::CancelToken>& cancel) {
  return cancel && cancel->is_cancelled();
}

/// Throws kCancelled if the iteration is cancelled.
inline void throw_if_cancelled(const std::optional<concurrency::CancelToken>& cancel) {
  if (is_cancelled(cancel)) std::rethrow_exception(cancelled_error());
}

/// As `result_of_next`, but if the iteration is cancelled, an error is thrown: it may be due to
/// that, and then it is not an element's.
template <class T>
ElementResult<T> result_unless_cancelled(IteratorBase<T>& iterator,
                                         const std::optional<concurrency::CancelToken>& cancel) {
  ElementResult<T> result = result_of_next(iterator);
  if (result.error && is_cancelled(cancel)) std::rethrow_exception(result.error);
  return result;
}

/// Checks a cancel token once every few elements: for loops that may read many elements without
/// returning one, from an input that never waits.
///
/// Thread-safety: one thread at a time.
class CancelPoller {
 public:
  explicit CancelPoller(std::optional<concurrency::CancelToken> cancel)
      : cancel_(std::move(cancel)) {}

  /// Call it once for each element, before the element is read. Throws kCancelled if the iteration
  /// is cancelled.
  void poll() {
    if (++passed_ % kElementsPerPoll == 0) throw_if_cancelled(cancel_);
  }

 private:
  /// Few enough for a slow input, and enough that polling costs next to nothing.
  static constexpr std::uint64_t kElementsPerPoll = 16;

  std::optional<concurrency::CancelToken> cancel_;
  std::uint64_t passed_ = 0;
};

/// Calls `input.skip` for up to `count` elements, in parts, and checks the token between parts: a
/// saved position may ask to skip any number of elements. The parts grow until one takes some 50
/// ms, because many inputs skip at no cost, and an input with threads may restart them for each.
template <class T>
std::uint64_t cancellable_skip(IteratorBase<T>& input, std::uint64_t count,
                               const std::optional<concurrency::CancelToken>& cancel) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLongPart = std::chrono::milliseconds(50);
  std::uint64_t part = std::uint64_t{1} << 10;
  std::uint64_t passed = 0;
  while (passed < count) {
    throw_if_cancelled(cancel);
    const auto begin = Clock::now();
    const std::uint64_t requested = std::min(part, count - passed);
    const std::uint64_t done = input.skip(requested);
    passed += done;
    if (done < requested) break;
    if (Clock::now() - begin < kLongPart) part = saturating_multiply(part, 2);
  }
  return passed;
}

}  // namespace brigade::data::internal

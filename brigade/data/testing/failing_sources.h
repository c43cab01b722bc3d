#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/sources/from_generator.h"

/// Sources that fail. For tests only.
namespace brigade::data::testing {

/// The numbers 0, 1, ... size - 1. Reading one throws once the token is cancelled.
///
/// Thread-safety: `calls` from any thread.
class CancellableSource {
 public:
  CancellableSource(std::int64_t size, concurrency::CancelToken token)
      : size_(size), token_(std::move(token)) {}
  Dataset<std::int64_t> dataset() const {
    return from_generator<std::int64_t>([*this] {
      return [*this, x = std::int64_t{0}]() mutable -> std::optional<std::int64_t> {
        ++*calls_;
        token_.throw_if_cancelled("a number");
        return x < size_ ? std::optional(x++) : std::nullopt;
      };
    });
  }
  /// How many reads there were.
  int calls() const { return *calls_; }

 private:
  std::int64_t size_;
  concurrency::CancelToken token_;
  std::shared_ptr<std::atomic<int>> calls_ = std::make_shared<std::atomic<int>>(0);
};

/// The numbers 0, 1, ... size - 1. Starting iterator number `failing`, counted from 0, throws.
inline Dataset<std::int64_t> source_failing_at(std::int64_t size, int failing) {
  const auto num_started = std::make_shared<std::atomic<int>>(0);
  return from_generator<std::int64_t>([=] {
    if ((*num_started)++ == failing) throw Error(ErrorCode::kUnavailable, "the source is away");
    return
        [=, x = std::int64_t{0}]() mutable { return x < size ? std::optional(x++) : std::nullopt; };
  });
}

}  // namespace brigade::data::testing

#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/staging_area.h"
#include "brigade/concurrency/thread_pool.h"

namespace brigade::concurrency {

struct StagingThreadOptions {
  /// The name of the thread, also in errors.
  std::string name = "staging";
  /// The number of elements prefetched for the consumer, at least 1. One more is being made
  /// meanwhile.
  std::size_t depth = 1;
};

/// Calls `make` on its own thread ahead of the consumer, and keeps the results in a `StagingArea`.
/// The thread runs as long as this object lives; the destructor waits for a running `make`.
///
/// Thread-safety: `next` by one thread at a time.
template <class T>
class StagingThread {
 public:
  /// Returns the next element, or nothing at the end, after which it is not called again.
  using Make = std::function<std::optional<T>()>;

  /// Throws kInvalidArgument for a depth of 0.
  StagingThread(StagingThreadOptions options, Make make)
      : make_(std::move(make)), area_({.name = options.name, .capacity = checked_depth(options)}) {
    pool_ = std::make_unique<ThreadPool>(ThreadPoolOptions{.threads = 1, .name = options.name});
    pool_->submit([this] { run(); });
  }
  ~StagingThread() {
    stop_.cancel();
    pool_ = nullptr;  // joins
  }
  StagingThread(const StagingThread&) = delete;
  StagingThread& operator=(const StagingThread&) = delete;

  /// Waits for the next element; returns nothing at and after the end. An exception of `make` is
  /// thrown after the elements made before it, and ends the sequence.
  std::optional<T> next() {
    if (has_ended_) return std::nullopt;
    std::optional<Staged> staged;
    try {
      staged.emplace(area_.get({.timeout = std::nullopt, .cancel = gone_}));
    } catch (...) {
      has_ended_ = true;
      if (broken_) std::rethrow_exception(broken_);  // written before gone_ was cancelled
      throw;
    }
    has_ended_ = !staged->element.has_value();
    if (staged->error) std::rethrow_exception(staged->error);
    return std::move(staged->element);
  }

  /// Calls `look` with a pointer to the element that `next` will return, which stays here, and
  /// returns true; with null if `next` will return nothing or throw. Returns false if `next` would
  /// wait. `look` must be short. By the thread that calls `next`, or while that does not.
  template <class Look>
  bool look_at_next(const Look& look) const {
    if (has_ended_) {
      look(static_cast<const T*>(nullptr));
      return true;
    }
    return area_.look_at_oldest([&look](const Staged& staged) {
      const bool is_element = !staged.error && staged.element.has_value();
      look(is_element ? &*staged.element : nullptr);
    });
  }

 private:
  struct Staged {
    std::optional<T> element;
    std::exception_ptr error;
  };

  static std::size_t checked_depth(const StagingThreadOptions& options) {
    check_argument(options.depth > 0,
                   options.name + ": a depth of 0 holds nothing; pass 1 or more");
    return options.depth;
  }

  void run() {
    try {
      while (put_next()) {
      }
    } catch (...) {  // stopped, or no memory even for the error
      broken_ = std::current_exception();
      gone_.cancel();
    }
  }
  bool put_next() {
    Staged staged;
    try {
      staged.element = make_();
    } catch (...) {
      staged.error = std::current_exception();
    }
    const bool has_more = staged.element.has_value();
    area_.put(std::move(staged), {.timeout = std::nullopt, .cancel = stop_});
    return has_more;
  }

  const Make make_;
  const CancelToken stop_;  // cancelled by the destructor
  const CancelToken gone_;  // cancelled when the thread fails
  std::exception_ptr broken_;
  bool has_ended_ = false;
  StagingArea<Staged> area_;
  std::unique_ptr<ThreadPool> pool_;  // last: joined before anything it uses goes
};

}  // namespace brigade::concurrency

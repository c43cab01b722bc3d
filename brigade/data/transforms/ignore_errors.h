#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/transform.h"

namespace brigade::data {

/// Counts the failed elements that were skipped by all iterators that share it. Elements that are
/// read again after a restore are counted again.
///
/// Thread-safety: all functions from any thread.
class ErrorCount {
 public:
  void add_one() { count_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> count_{0};
};

/// What `ignore_errors` writes to the log.
enum class ErrorLog {
  kSummary,  ///< At the end of an epoch, the number of skipped elements and the first error.
  kEach,     ///< Also one line per element.
  kOff,      ///< Nothing.
};

/// Options of `Dataset::ignore_errors`.
struct IgnoreErrorsOptions {
  /// What is logged about the skipped elements.
  ErrorLog log = ErrorLog::kSummary;
  /// Counts the skipped elements. Null: they are not counted.
  std::shared_ptr<ErrorCount> count{};
};

namespace internal {

/// The elements skipped by one iterator, and their log messages.
///
/// Thread-safety: one thread at a time.
class IgnoredErrors {
 public:
  IgnoredErrors(std::string where, std::uint64_t epoch, IgnoreErrorsOptions options)
      : where_(std::move(where)), epoch_(epoch), options_(std::move(options)) {}
  /// Records the current exception.
  void add_current();
  /// Logs the number of skipped elements once, if there were any.
  void end();

  io::StateTree save(io::StateTree input) const;
  /// Throws kInvalidArgument if the state is of another transform, and then changes nothing.
  void restore(const io::StateTree& state);

 private:
  std::string where_;
  std::uint64_t epoch_;
  IgnoreErrorsOptions options_;
  std::uint64_t left_out_ = 0;
  std::string first_;
  bool has_ended_ = false;
};

template <class T>
class IgnoreErrorsIterator final : public IteratorBase<T> {
 public:
  IgnoreErrorsIterator(std::unique_ptr<IteratorBase<T>> input, IgnoredErrors ignored,
                       std::optional<concurrency::CancelToken> cancel)
      : input_(std::move(input)), ignored_(std::move(ignored)), cancel_(std::move(cancel)) {}
  std::optional<T> next() override {
    while (true) {
      try {
        auto element = input_->next();
        if (!element) ignored_.end();
        return element;
      } catch (const std::bad_alloc&) {  // not caused by the element
        throw;
      } catch (...) {
        if (is_cancelled(cancel_)) throw;
        ignored_.add_current();
      }
    }
  }
  io::StateTree save() const override { return ignored_.save(input_->save()); }
  void restore(const io::StateTree& state) override {
    IgnoredErrors ignored = ignored_;
    ignored.restore(state);
    input_->restore(position_input(state));
    ignored_ = std::move(ignored);
  }

 private:
  std::unique_ptr<IteratorBase<T>> input_;
  IgnoredErrors ignored_;
  std::optional<concurrency::CancelToken> cancel_;
};

}  // namespace internal

/// See `Dataset::ignore_errors`.
template <class T>
NodePtr<T> make_ignore_errors(NodePtr<T> input, IgnoreErrorsOptions options) {
  return internal::make_transform<T>(
      std::move(input), {.name = "ignore_errors", .cardinality = internal::unknown_unless_infinite},
      [options = std::move(options)](const Node<T>& from, const IteratorOptions& job,
                                     const Node<T>& self) {
        return std::make_unique<internal::IgnoreErrorsIterator<T>>(
            from.iterator(job), internal::IgnoredErrors(self.describe(), job.epoch, options),
            job.cancel);
      });
}

}  // namespace brigade::data

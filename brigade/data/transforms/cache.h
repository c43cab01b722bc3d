#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/transform.h"

namespace brigade::data {

namespace internal {

/// Throws kInvalidArgument if the input never ends.
void check_cache_input(std::int64_t cardinality, const std::string& describe);
/// The options of the iterator that fills a cache: always those of epoch 0, so that the cached
/// elements do not depend on the epoch in which they were read.
IteratorOptions options_of_cached(IteratorOptions options);
[[noreturn]] void throw_cached_input_too_short(std::uint64_t index);

/// Shared by the iterators of a cache: the elements of complete passes, by seed and shard, and
/// whether a warning about an incomplete pass was logged.
///
/// Thread-safety: all functions from any thread.
template <class T>
class CacheStore {
 public:
  using Elements = std::shared_ptr<const std::vector<T>>;

  /// Null if there is no complete pass yet.
  Elements find(const IteratorOptions& options) const {
    concurrency::MutexLock lock(mutex_);
    for (const Filled& each : filled_) {
      if (each.seed == options.seed && each.shard == options.shard) return each.elements;
    }
    return nullptr;
  }
  /// Returns the elements of the first complete pass, which may be another iterator's.
  Elements put(const IteratorOptions& options, std::vector<T>&& elements) {
    concurrency::MutexLock lock(mutex_);
    for (const Filled& each : filled_) {
      if (each.seed == options.seed && each.shard == options.shard) return each.elements;
    }
    if (filled_.size() == kMaxKept) filled_.erase(filled_.begin());
    filled_.push_back(
        {options.seed, options.shard, std::make_shared<const std::vector<T>>(std::move(elements))});
    return filled_.back().elements;
  }
  /// True on the first call only.
  bool wants_warning() {
    concurrency::MutexLock lock(mutex_);
    return !std::exchange(has_warned_, true);
  }

 private:
  struct Filled {
    std::uint64_t seed;
    Shard shard;
    Elements elements;
  };
  static constexpr std::size_t kMaxKept = 8;  // bounds the memory of passes with different seeds

  mutable concurrency::Mutex mutex_;
  std::vector<Filled> filled_ BRIGADE_GUARDED_BY(mutex_);
  bool has_warned_ BRIGADE_GUARDED_BY(mutex_) = false;
};

/// Logs that a pass over the cache was not complete.
void warn_of_partial_pass(const std::string& cache, std::uint64_t elements) noexcept;
/// Logs that an element failed in the pass.
void warn_of_failed_element(const std::string& cache) noexcept;

/// Returns the elements of a complete pass, or reads the input and stores its elements.
template <class T>
class CacheIterator final : public IteratorBase<T> {
 public:
  CacheIterator(const Node<T>& input, IteratorOptions options, std::shared_ptr<CacheStore<T>> store,
                std::string name)
      : node_(input),
        options_(options_of_cached(std::move(options))),
        store_(std::move(store)),
        name_(std::move(name)),
        whole_(store_->find(options_)) {}
  ~CacheIterator() override {
    const bool is_partial = !whole_ && !has_ended_ && !read_.empty();
    if (is_partial && store_->wants_warning()) warn_of_partial_pass(name_, read_.size());
  }
  CacheIterator(const CacheIterator&) = delete;
  CacheIterator& operator=(const CacheIterator&) = delete;

  std::optional<T> next() override {
    if (!reaches(index_)) return std::nullopt;
    const auto index = static_cast<std::size_t>(index_++);
    if (whole_) return (*whole_)[index];
    if (read_[index].error) std::rethrow_exception(read_[index].error);
    return *read_[index].element;
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t end = saturating_add(index_, count);
    if (count > 0) reaches(end - 1);
    const std::uint64_t reached = end < size() ? end : size();
    return reached - std::exchange(index_, reached);
  }
  io::StateTree save() const override { return make_position("cache", {{"place", index_}}); }
  void restore(const io::StateTree& state) override {
    check_position(state, "cache");
    const std::uint64_t index = position_number(state, "place");
    check_source_position(index, node_.cardinality(), node_.describe());
    if (index > 0 && !reaches(index - 1)) throw_cached_input_too_short(index);
    index_ = index;
  }
  bool keeps_position_when_cancelled() const override { return true; }

 private:
  std::uint64_t size() const { return whole_ ? whole_->size() : read_.size(); }
  /// Whether there is an element at `index`. Reads the input up to it if necessary.
  bool reaches(std::uint64_t index) {
    while (!whole_ && !has_ended_ && read_.size() <= index) read();
    return index < size();
  }
  void read() {
    whole_ = store_->find(options_);  // another iterator may have completed its pass
    if (whole_) return forget();
    throw_if_cancelled(options_.cancel);
    if (!input_) input_ = node_.iterator(options_);
    ElementResult<T> result = result_unless_cancelled(*input_, options_.cancel);
    if (result.is_end()) return finish();
    has_failed_ = has_failed_ || result.error;
    read_.push_back(std::move(result));
    // A consumer that counts does not ask for more; but there may be another element, or an error.
    if (static_cast<std::int64_t>(read_.size()) == node_.cardinality()) read();
  }
  void finish() {
    input_ = nullptr;
    has_ended_ = true;
    if (has_failed_) {  // the element may succeed next time
      if (store_->wants_warning()) warn_of_failed_element(name_);
      return;
    }
    std::vector<T> elements;
    elements.reserve(read_.size());
    for (ElementResult<T>& result : read_) elements.push_back(std::move(*result.element));
    whole_ = store_->put(options_, std::move(elements));
    forget();
  }
  void forget() {
    input_ = nullptr;
    read_ = {};
  }

  const Node<T>& node_;
  const IteratorOptions options_;
  const std::shared_ptr<CacheStore<T>> store_;
  const std::string name_;
  typename CacheStore<T>::Elements whole_;
  std::vector<ElementResult<T>> read_;  // from the start, while there is no complete pass
  bool has_failed_ = false;
  bool has_ended_ = false;
  std::unique_ptr<IteratorBase<T>> input_;
  std::uint64_t index_ = 0;
};

}  // namespace internal

/// See `Dataset::cache`.
template <class T>
NodePtr<T> make_cache(NodePtr<T> input) {
  static_assert(std::copy_constructible<T>,
                "cache() gives out copies of what it keeps: elements must be copyable");
  internal::check_cache_input(input->cardinality(), input->describe() + " | cache");
  return internal::make_transform<T>(
      std::move(input), {.name = "cache", .rereads_input = true, .has_fixed_order = true},
      [store = std::make_shared<internal::CacheStore<T>>()](
          const Node<T>& from, const IteratorOptions& job, const Node<T>& self) {
        return std::make_unique<internal::CacheIterator<T>>(from, job, store, self.describe());
      });
}

}  // namespace brigade::data

#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

namespace brigade::data {

namespace internal {

/// Throws kInvalidArgument unless all parts of a batch have as many elements: that many.
std::int64_t size_of_parts(const std::vector<std::int64_t>& sizes);

}  // namespace internal

/// The way back: what a batch of type B is made of, for `unbatch` and `rebatch`: vectors,
/// tuples and pairs of batches, and where their headers are included tensors. Specialize it beside
/// `Structure<T>` for a batch type of yours, with the same members. What `element` and `slice`
/// took, they may leave empty: nobody asks for an element twice, and all ask in order.
///
/// Thread-safety: pure functions.
template <class B>
struct Unbatch;

/// Lists give their elements away.
///
/// Thread-safety: pure functions.
template <class T>
struct Unbatch<std::vector<T>> {
  using Element = T;
  using Batch = std::vector<T>;

  /// Elements in the batch. May throw for what is no batch.
  static std::int64_t size(const Batch& batch) { return static_cast<std::int64_t>(batch.size()); }
  /// Element `index` of the batch: 0 <= index < size.
  static T element(Batch& batch, std::int64_t index) {
    return std::move(batch[static_cast<std::size_t>(index)]);
  }
  /// Elements [begin, end) of the batch.
  static Batch slice(Batch& batch, std::int64_t begin, std::int64_t end) {
    return Batch(std::make_move_iterator(batch.begin() + begin),
                 std::make_move_iterator(batch.begin() + end));
  }
  /// One batch of the elements of all parts, in their order. There is at least one part.
  static Batch concatenate(std::vector<Batch>&& parts) {
    Batch batch = std::move(parts.front());
    for (std::size_t i = 1; i < parts.size(); ++i) {
      batch.insert(batch.end(), std::make_move_iterator(parts[i].begin()),
                   std::make_move_iterator(parts[i].end()));
    }
    return batch;
  }
};

/// Tuples of batches come apart into tuples of elements.
///
/// Thread-safety: pure functions.
template <class... B>
struct Unbatch<std::tuple<B...>> {
  using Element = std::tuple<typename Unbatch<B>::Element...>;
  using Batch = std::tuple<B...>;

  static std::int64_t size(const Batch& batch) {
    return std::apply(
        [](const auto&... part) { return internal::size_of_parts({Unbatch<B>::size(part)...}); },
        batch);
  }
  static Element element(Batch& batch, std::int64_t index) {
    return std::apply([&](auto&... part) { return Element(Unbatch<B>::element(part, index)...); },
                      batch);
  }
  static Batch slice(Batch& batch, std::int64_t begin, std::int64_t end) {
    return std::apply([&](auto&... part) { return Batch(Unbatch<B>::slice(part, begin, end)...); },
                      batch);
  }
  static Batch concatenate(std::vector<Batch>&& parts) {
    return concatenate_all(parts, std::index_sequence_for<B...>());
  }

 private:
  template <std::size_t... I>
  static Batch concatenate_all(std::vector<Batch>& parts, std::index_sequence<I...>) {
    return Batch(concatenate_at<I, B>(parts)...);
  }
  template <std::size_t I, class Part>
  static Part concatenate_at(std::vector<Batch>& batches) {
    std::vector<Part> parts;
    parts.reserve(batches.size());
    for (Batch& batch : batches) parts.push_back(std::move(std::get<I>(batch)));
    return Unbatch<Part>::concatenate(std::move(parts));
  }
};

/// Pairs of batches come apart into pairs of elements.
///
/// Thread-safety: pure functions.
template <class A, class B>
struct Unbatch<std::pair<A, B>> {
  using Element = std::pair<typename Unbatch<A>::Element, typename Unbatch<B>::Element>;
  using Batch = std::pair<A, B>;

  static std::int64_t size(const Batch& batch) {
    return internal::size_of_parts({Unbatch<A>::size(batch.first), Unbatch<B>::size(batch.second)});
  }
  static Element element(Batch& batch, std::int64_t index) {
    return {Unbatch<A>::element(batch.first, index), Unbatch<B>::element(batch.second, index)};
  }
  static Batch slice(Batch& batch, std::int64_t begin, std::int64_t end) {
    return {Unbatch<A>::slice(batch.first, begin, end),
            Unbatch<B>::slice(batch.second, begin, end)};
  }
  static Batch concatenate(std::vector<Batch>&& parts) {
    std::vector<A> firsts;
    std::vector<B> seconds;
    for (auto& [first, second] : parts) {
      firsts.push_back(std::move(first));
      seconds.push_back(std::move(second));
    }
    return {Unbatch<A>::concatenate(std::move(firsts)),
            Unbatch<B>::concatenate(std::move(seconds))};
  }
};

}  // namespace brigade::data

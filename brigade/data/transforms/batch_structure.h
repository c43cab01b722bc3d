#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

namespace brigade::data {

namespace internal {

/// The number of elements of a batch. Throws kInvalidArgument unless all its parts have the same
/// number.
std::int64_t size_of_parts(const std::vector<std::int64_t>& sizes);

}  // namespace internal

/// The inverse of `Structure`: takes a batch of type B apart, for `unbatch` and `rebatch`. It is
/// defined for vectors, tuples and pairs of batches, and for tensors where their headers are
/// included. For your own batch type, specialize it next to `Structure<T>`, with the same members.
/// `element` and `slice` may move from the batch: each element is requested at most once, in order.
///
/// Thread-safety: pure functions.
template <class B>
struct Unbatch;

/// Elements are moved out of the list.
///
/// Thread-safety: pure functions.
template <class T>
struct Unbatch<std::vector<T>> {
  using Element = T;
  using Batch = std::vector<T>;

  /// The number of elements in the batch. May throw for an invalid batch.
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
  /// Joins the elements of all parts into one batch, in order. There is at least one part.
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

#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace brigade::data {

/// How elements of type T are stacked into batches, and batches sliced again. Brigade looks inside
/// an element in no other way. Specialize it for a type whose batch is not a `std::vector` (as
/// `input/tensor_structure.h` does for tensors); a specialization has the same four members.
///
/// Thread-safety: pure functions.
template <class T>
struct Structure {
  using Batch = std::vector<T>;

  /// One batch of the elements, in their order. There is at least one element.
  static Batch stack(std::vector<T>&& elements) { return std::move(elements); }
  /// The number of elements in the batch.
  static std::int64_t size(const Batch& batch) { return static_cast<std::int64_t>(batch.size()); }
  /// Elements [begin, end) of the batch, possibly none: 0 <= begin <= end <= size.
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    return Batch(batch.begin() + begin, batch.begin() + end);
  }
};

/// A batch of tuples is a tuple of batches, one per field: for `zip` and `enumerate`.
template <class... T>
struct Structure<std::tuple<T...>> {
  using Batch = std::tuple<typename Structure<T>::Batch...>;

  static Batch stack(std::vector<std::tuple<T...>>&& elements) {
    return stack_parts(elements, std::index_sequence_for<T...>());
  }
  static std::int64_t size(const Batch& batch) {
    using First = std::tuple_element_t<0, std::tuple<T...>>;
    return Structure<First>::size(std::get<0>(batch));
  }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    return std::apply(
        [&](const auto&... part) { return Batch(Structure<T>::slice(part, begin, end)...); },
        batch);
  }

 private:
  template <std::size_t... I>
  static Batch stack_parts(std::vector<std::tuple<T...>>& elements, std::index_sequence<I...>) {
    return Batch(stack_part<I, T>(elements)...);
  }
  template <std::size_t I, class Part>
  static auto stack_part(std::vector<std::tuple<T...>>& elements) {
    std::vector<Part> parts;
    parts.reserve(elements.size());
    for (auto& element : elements) parts.push_back(std::move(std::get<I>(element)));
    return Structure<Part>::stack(std::move(parts));
  }
};

/// A batch of pairs is a pair of batches.
template <class A, class B>
struct Structure<std::pair<A, B>> {
  using Batch = std::pair<typename Structure<A>::Batch, typename Structure<B>::Batch>;

  static Batch stack(std::vector<std::pair<A, B>>&& elements) {
    std::vector<A> firsts;
    std::vector<B> seconds;
    firsts.reserve(elements.size());
    seconds.reserve(elements.size());
    for (auto& [first, second] : elements) {
      firsts.push_back(std::move(first));
      seconds.push_back(std::move(second));
    }
    return {Structure<A>::stack(std::move(firsts)), Structure<B>::stack(std::move(seconds))};
  }
  static std::int64_t size(const Batch& batch) { return Structure<A>::size(batch.first); }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    return {Structure<A>::slice(batch.first, begin, end),
            Structure<B>::slice(batch.second, begin, end)};
  }
};

}  // namespace brigade::data

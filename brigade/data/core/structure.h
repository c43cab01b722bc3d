#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/data/core/fields.h"

namespace brigade::data {

/// How elements of type T are stacked into batches, and batches sliced again. Brigade looks inside
/// an element in no other way. A type whose batch is not a `std::vector` names its fields (see
/// `HasFields`), or specializes this with the same four members, as `input/tensor_structure.h` does
/// for tensors.
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

/// The inverse of `Structure`: takes a batch of type B apart, for `unbatch` and `rebatch`. It is
/// defined for vectors, tuples and pairs of batches, for types that name their fields (see
/// `HasFields`), and for tensors where their headers are included. `element` and `slice` may move
/// from the batch: each element is requested at most once, in order.
///
/// Thread-safety: pure functions.
template <class B>
struct Unbatch {
  static_assert(HasFields<B>,
                "This type cannot be taken apart into elements: name its fields in it, "
                "`static constexpr auto fields = std::tuple{&Batch::first, &Batch::second};`, or "
                "specialize brigade::data::Unbatch for it.");
};

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

namespace internal {

template <class T>
using BatchOf = typename Structure<T>::Batch;
template <class B>
using ElementOf = typename Unbatch<B>::Element;

/// How the fields of type T in elements and of type B in batches become each other.
template <class T, class B>
struct FieldStructure : Structure<T> {
  static_assert(std::same_as<BatchOf<T>, B>,
                "A field of a batch must have the type that the field of its elements stacks to "
                "(brigade::data::Structure): a tensor for tensors or numbers, otherwise a list.");
};
template <class B, class T>
struct FieldUnbatch : Unbatch<B> {};

template <class T>
struct BatchOfParts {
  using Type = typename MapParts<BatchOf, T>::Type;
};
template <HasFields T>
struct BatchOfParts<T> {
  using Type = T;
};
template <HasFields T>
requires requires {
  typename T::Batch;
}
struct BatchOfParts<T> {
  using Type = typename T::Batch;
};

template <class B>
struct ElementOfParts {
  using Type = typename MapParts<ElementOf, B>::Type;
};
template <HasFields B>
struct ElementOfParts<B> {
  using Type =
      std::conditional_t<kPartsStay<ElementOf, B>, B, typename MapParts<ElementOf, B>::Type>;
};
template <HasFields B>
requires requires {
  typename B::Element;
}
struct ElementOfParts<B> {
  using Type = typename B::Element;
};

template <class T>
concept StacksByParts = kIsTuple<T> ||
    (HasFields<T> && (requires { typename T::Batch; } || kPartsStay<BatchOf, T>));

}  // namespace internal

/// A batch of tuples is a tuple of batches, one per part (for `zip` and `enumerate`); that of pairs
/// is a pair, and that of a type that names its fields a struct.
///
/// Thread-safety: pure functions.
template <internal::StacksByParts T>
struct Structure<T> {
  using Batch = typename internal::BatchOfParts<T>::Type;

  static Batch stack(std::vector<T>&& elements) {
    return internal::from_parts<Batch>(
        [&](auto i) { return Field<i>::stack(internal::take_parts<i>(elements)); });
  }
  static std::int64_t size(const Batch& batch) {
    const auto parts = internal::parts_of(batch);
    return internal::with_indices<T>([&](auto... i) {
      return internal::size_of_parts({Field<i>::size(std::get<i>(parts))...});
    });
  }
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
    const auto parts = internal::parts_of(batch);
    return internal::from_parts<Batch>(
        [&](auto i) { return Field<i>::slice(std::get<i>(parts), begin, end); });
  }

 private:
  static_assert(internal::kNumParts<T> == internal::kNumParts<Batch>,
                "A type and its Batch must name the same number of fields.");
  template <std::size_t i>
  using Field = internal::FieldStructure<internal::Part<T, i>, internal::Part<Batch, i>>;
};

/// Tuples, pairs and structs of batches come apart into those of elements.
///
/// Thread-safety: pure functions.
template <internal::HasParts B>
struct Unbatch<B> {
  using Element = typename internal::ElementOfParts<B>::Type;
  using Batch = B;

  static std::int64_t size(const Batch& batch) {
    const auto parts = internal::parts_of(batch);
    return internal::with_indices<B>([&](auto... i) {
      return internal::size_of_parts({Field<i>::size(std::get<i>(parts))...});
    });
  }
  static Element element(Batch& batch, std::int64_t index) {
    const auto parts = internal::parts_of(batch);
    return internal::from_parts<Element>(
        [&](auto i) { return Field<i>::element(std::get<i>(parts), index); });
  }
  static Batch slice(Batch& batch, std::int64_t begin, std::int64_t end) {
    const auto parts = internal::parts_of(batch);
    return internal::from_parts<Batch>(
        [&](auto i) { return Field<i>::slice(std::get<i>(parts), begin, end); });
  }
  static Batch concatenate(std::vector<Batch>&& batches) {
    return internal::from_parts<Batch>(
        [&](auto i) { return Field<i>::concatenate(internal::take_parts<i>(batches)); });
  }

 private:
  static_assert(internal::kNumParts<B> == internal::kNumParts<Element>,
                "A type and its Element must name the same number of fields.");
  template <std::size_t i>
  using Field = internal::FieldUnbatch<internal::Part<B, i>, internal::Part<Element, i>>;
};

}  // namespace brigade::data

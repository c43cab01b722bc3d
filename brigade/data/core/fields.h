#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace brigade::data {

/// The types that name their fields, which is all that Brigade needs to know of a custom type of
/// elements or batches:
///
///   struct Batch {
///     at::Tensor pixels, labels;
///     static constexpr auto fields = std::tuple{&Batch::pixels, &Batch::labels};
///   };
///
/// `Structure`, `Unbatch`, `Padding` and `ByteSize` of such a type, splitting it among replicas and
/// copying it to devices follow from those of its fields, as for a tuple. Each can be replaced for
/// the type: by a specialization, `map_tensors` (input/to_device.h) by an overload.
///
/// Name every field: one that is not named has its default value in what is made from others. The
/// type must have a default constructor.
///
/// The batch of elements is the same struct if each field stacks to its own type, as tensors do.
/// Otherwise the element names the type of its batch, and the batch that of its elements, with as
/// many fields:
///
///   struct Example {
///     using Batch = ::Batch;
///     at::Tensor pixels;
///     std::int64_t label = 0;  // numbers become a tensor
///     static constexpr auto fields = std::tuple{&Example::pixels, &Example::label};
///   };
///
/// and `using Element = Example;` in `Batch`. Without these, a batch is a list of elements, and an
/// element of a batch a tuple.
template <class T>
concept HasFields = requires {
  std::tuple_size<std::remove_cvref_t<decltype(T::fields)>>::value;
};

namespace internal {

template <class T>
inline constexpr bool kIsTuple = false;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;

template <class T>
concept HasParts = kIsTuple<T> || HasFields<T>;

/// References to the parts of a tuple or pair, or to the fields of a struct.
template <class T>
auto parts_of(T& value) {
  if constexpr (HasFields<T>) {
    return std::apply([&](auto... field) { return std::tie(value.*field...); }, T::fields);
  } else {
    return std::apply([](auto&... part) { return std::tie(part...); }, value);
  }
}

template <class T>
using References = decltype(parts_of(std::declval<T&>()));
template <class T>
inline constexpr std::size_t kNumParts = std::tuple_size_v<References<T>>;
template <class T, std::size_t i>
using Part = std::remove_cvref_t<std::tuple_element_t<i, References<T>>>;

/// `call(integral_constant<std::size_t, i>...)` with the indices of T's parts.
template <class T, class Call>
constexpr decltype(auto) with_indices(const Call& call) {
  return [&]<std::size_t... i>(std::index_sequence<i...>)->decltype(auto) {
    return call(std::integral_constant<std::size_t, i>()...);
  }
  (std::make_index_sequence<kNumParts<T>>());
}

/// A T of the parts that `make(index)` returns; called from the first part to the last.
template <class T, class Make>
T from_parts(const Make& make) {
  return with_indices<T>([&](auto... i) {
    if constexpr (HasFields<T>) {
      T value{};
      ((value.*std::get<i>(T::fields) = make(i)), ...);
      return value;
    } else {
      return T{make(i)...};
    }
  });
}

/// Part `i` of all values, moved out of them.
template <std::size_t i, class T>
std::vector<Part<T, i>> take_parts(std::vector<T>& values) {
  std::vector<Part<T, i>> parts;
  parts.reserve(values.size());
  for (T& value : values) parts.push_back(std::move(std::get<i>(parts_of(value))));
  return parts;
}

/// A tuple or pair, as T is, of `F` of T's parts; for a struct a tuple.
template <template <class> class F, class T>
struct MapParts {
  template <class... P>
  static std::tuple<F<std::remove_cvref_t<P>>...> map(const std::tuple<P...>&);
  using Type = decltype(map(std::declval<References<T>>()));
};
template <template <class> class F, class A, class B>
struct MapParts<F, std::pair<A, B>> {
  using Type = std::pair<F<A>, F<B>>;
};

/// Whether `F` of each part is the part's own type.
template <template <class> class F, class T>
inline constexpr bool kPartsStay =
    std::same_as<typename MapParts<F, T>::Type, typename MapParts<std::type_identity_t, T>::Type>;

/// The number of elements of a batch. Throws kInvalidArgument unless all its parts have the same
/// number.
std::int64_t size_of_parts(const std::vector<std::int64_t>& sizes);

}  // namespace internal

}  // namespace brigade::data

#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/data/core/encoder.h"

namespace brigade::data {

/// Converts an element of type T to bytes and back, for files of elements (`cache(path)`,
/// `snapshot`, `save`). There is a codec for bool, integers, float, double and std::string, and for
/// vectors, arrays, pairs, tuples and optionals of types that have one. Specialize it for a custom
/// type:
///
///   template <>
///   struct brigade::data::Codec<Point> {
///     static std::string name() { return "Point"; }
///     static void encode(const Point& point, Encoder& to) { encode_all(to, point.x, point.y); }
///     static Point decode(Decoder& from) {
///       const auto x = Codec<double>::decode(from);
///       return {x, Codec<double>::decode(from)};
///     }
///   };
///
/// `name` is written into the files, and a file is refused if it was written with another name:
/// change the name when the format of the bytes changes. `encode` must write at least one byte.
/// `decode` must read exactly the bytes that `encode` wrote. From other bytes it throws kDataLoss
/// or returns some element; it must not allocate memory out of proportion to the number of bytes,
/// so get lengths from `Decoder::length`.
///
/// Thread-safety: pure functions.
template <class T>
struct Codec;

/// The types that have a `Codec`.
template <class T>
concept Encodable = requires(const T& element, Encoder& to, Decoder& from) {
  { Codec<T>::name() } -> std::convertible_to<std::string>;
  Codec<T>::encode(element, to);
  { Codec<T>::decode(from) } -> std::same_as<T>;
};

/// Encodes several values, one after the other.
template <Encodable... T>
void encode_all(Encoder& to, const T&... values) {
  (Codec<T>::encode(values, to), ...);
}

/// The bytes of one element.
template <Encodable T>
std::string encode(const T& element) {
  Encoder encoder;
  Codec<T>::encode(element, encoder);
  return std::move(encoder).bytes();
}

/// The element that `encode` wrote. Throws kDataLoss if the bytes are invalid, too few or too many.
template <Encodable T>
T decode(std::string_view bytes) {
  Decoder decoder(bytes);
  T element = Codec<T>::decode(decoder);
  decoder.expect_end();
  return element;
}

/// One byte, 0 or 1.
template <>
struct Codec<bool> {
  static std::string name() { return "bool"; }
  static void encode(bool value, Encoder& to) { to.number<std::uint8_t>(value ? 1 : 0); }
  static bool decode(Decoder& from) { return from.flag("bool"); }
};

/// Fixed width, the lowest byte first.
template <CodedNumber T>
struct Codec<T> {
  static std::string name() {
    constexpr const char* kKind = std::floating_point<T> ? "f" : std::is_signed_v<T> ? "i" : "u";
    return base::str_cat(kKind, 8 * sizeof(T));
  }
  static void encode(T value, Encoder& to) { to.number(value); }
  static T decode(Decoder& from) { return from.number<T>(); }
};

/// The length as u64, and the bytes.
template <>
struct Codec<std::string> {
  static std::string name() { return "string"; }
  static void encode(const std::string& value, Encoder& to) {
    to.number<std::uint64_t>(value.size());
    to.append(value);
  }
  static std::string decode(Decoder& from) {
    return std::string(from.take(from.length(1, "string")));
  }
};

/// The length as u64, and the elements.
template <Encodable T>
struct Codec<std::vector<T>> {
  static std::string name() { return base::str_cat("vector<", Codec<T>::name(), ">"); }
  static void encode(const std::vector<T>& elements, Encoder& to) {
    to.number<std::uint64_t>(elements.size());
    if constexpr (CodedNumber<T>) {
      to.numbers(elements.data(), elements.size());
    } else {
      const std::size_t before = to.size();
      for (const auto& element : elements) Codec<T>::encode(element, to);
      internal::check_encoded(to.size() - before, elements.size(), name());
    }
  }
  static std::vector<T> decode(Decoder& from) {
    if constexpr (CodedNumber<T>) {
      return from.numbers<T>(from.length(sizeof(T), "vector"));
    } else {
      std::vector<T> elements;
      for (auto left = from.length(1, "vector"); left > 0; --left) {
        elements.push_back(Codec<T>::decode(from));
      }
      return elements;
    }
  }
};

/// The elements.
template <Encodable T, std::size_t size>
requires(size > 0) struct Codec<std::array<T, size>> {
  static std::string name() { return base::str_cat("array<", Codec<T>::name(), ", ", size, ">"); }
  static void encode(const std::array<T, size>& elements, Encoder& to) {
    for (const T& element : elements) Codec<T>::encode(element, to);
  }
  static std::array<T, size> decode(Decoder& from) {
    return [&]<std::size_t... index>(std::index_sequence<index...>) {
      return std::array<T, size>{((void)index, Codec<T>::decode(from))...};
    }
    (std::make_index_sequence<size>());
  }
};

/// The parts in their order.
template <Encodable First, Encodable... Rest>
struct Codec<std::tuple<First, Rest...>> {
  static std::string name() {
    const std::vector<std::string> names = {Codec<First>::name(), Codec<Rest>::name()...};
    return base::str_cat("tuple<", base::join(names, ", "), ">");
  }
  static void encode(const std::tuple<First, Rest...>& parts, Encoder& to) {
    std::apply([&](const auto&... part) { encode_all(to, part...); }, parts);
  }
  static std::tuple<First, Rest...> decode(Decoder& from) {
    // Within braces the calls are made from left to right.
    return std::tuple<First, Rest...>{Codec<First>::decode(from), Codec<Rest>::decode(from)...};
  }
};

/// As a tuple of two.
template <Encodable First, Encodable Second>
struct Codec<std::pair<First, Second>> {
  static std::string name() { return Codec<std::tuple<First, Second>>::name(); }
  static void encode(const std::pair<First, Second>& parts, Encoder& to) {
    encode_all(to, parts.first, parts.second);
  }
  static std::pair<First, Second> decode(Decoder& from) {
    return std::pair<First, Second>{Codec<First>::decode(from), Codec<Second>::decode(from)};
  }
};

/// Whether there is a value, as a bool, and the value.
template <Encodable T>
struct Codec<std::optional<T>> {
  static std::string name() { return base::str_cat("optional<", Codec<T>::name(), ">"); }
  static void encode(const std::optional<T>& value, Encoder& to) {
    Codec<bool>::encode(value.has_value(), to);
    if (value) Codec<T>::encode(*value, to);
  }
  static std::optional<T> decode(Decoder& from) {
    if (!from.flag("optional")) return std::nullopt;
    return Codec<T>::decode(from);
  }
};

}  // namespace brigade::data

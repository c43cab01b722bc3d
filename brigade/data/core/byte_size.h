#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "brigade/data/core/fields.h"

namespace brigade::data {

template <class T>
struct ByteSize;

namespace internal {

/// The bytes that an element owns outside the object.
template <class T>
std::uint64_t owned_bytes(const T& element) {
  const std::uint64_t whole = ByteSize<T>::of(element);
  return whole > sizeof(T) ? whole - sizeof(T) : 0;
}

}  // namespace internal

/// The approximate memory of an element in bytes, for the memory budget of autotuning. For a type
/// that owns memory outside the object (tensors), specialize it, give the type a member
/// `std::uint64_t byte_size() const`, or name its fields (see `HasFields`). The default is
/// `sizeof(T)`.
///
/// Thread-safety: pure functions.
template <class T>
struct ByteSize {
  static std::uint64_t of(const T& element) {
    if constexpr (requires {
                    { element.byte_size() } -> std::convertible_to<std::uint64_t>;
                  }) {
      return element.byte_size();
    } else if constexpr (internal::HasParts<T>) {
      return std::apply(
          [](const auto&... part) {
            return (std::uint64_t{sizeof(T)} + ... + internal::owned_bytes(part));
          },
          internal::parts_of(element));
    } else {
      return sizeof(T);
    }
  }
};

template <>
struct ByteSize<std::string> {
  static std::uint64_t of(const std::string& text) { return sizeof text + text.capacity(); }
};

template <class T>
struct ByteSize<std::vector<T>> {
  static std::uint64_t of(const std::vector<T>& elements) {
    constexpr std::size_t kMaxSampled = 16;  // the average of these stands for all
    const std::size_t sampled = std::min(elements.size(), kMaxSampled);
    std::uint64_t owned = 0;
    for (std::size_t i = 0; i < sampled; ++i) owned += internal::owned_bytes(elements[i]);
    if (sampled > 0) owned = owned * elements.size() / sampled;
    return sizeof elements + elements.capacity() * sizeof(T) + owned;
  }
};

template <>
struct ByteSize<std::vector<bool>> {
  static std::uint64_t of(const std::vector<bool>& bits) { return sizeof bits + bits.size() / 8; }
};

template <class T>
struct ByteSize<std::optional<T>> {
  static std::uint64_t of(const std::optional<T>& element) {
    return sizeof element + (element ? internal::owned_bytes(*element) : 0);
  }
};

template <class... T>
struct ByteSize<std::variant<T...>> {
  static std::uint64_t of(const std::variant<T...>& one) {
    return std::visit([](const auto& held) { return internal::owned_bytes(held); }, one) +
           sizeof one;
  }
};

template <class K, class V, class Less>
struct ByteSize<std::map<K, V, Less>> {
  static std::uint64_t of(const std::map<K, V, Less>& entries) {
    constexpr std::uint64_t kLinks = 4 * sizeof(void*);  // of a tree node
    std::uint64_t bytes = sizeof entries;
    for (const auto& entry : entries) {
      bytes += kLinks + ByteSize<std::pair<const K, V>>::of(entry);
    }
    return bytes;
  }
};

}  // namespace brigade::data

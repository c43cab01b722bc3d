#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brigade::data {

/// How much memory an element takes, for the memory budget of autotuning: about. Specialise it for
/// a type of yours that owns more than itself (tensors); without, only what `sizeof` sees counts.
///
/// Thread-safety: pure functions.
template <class T>
struct ByteSize {
  static std::uint64_t of(const T&) { return sizeof(T); }
};

template <>
struct ByteSize<std::string> {
  static std::uint64_t of(const std::string& text) { return sizeof text + text.capacity(); }
};

template <class T>
struct ByteSize<std::vector<T>> {
  static std::uint64_t of(const std::vector<T>& elements) {
    const std::uint64_t room = elements.capacity() * sizeof(T);
    if (elements.empty()) return sizeof elements + room;
    const std::uint64_t owned = ByteSize<T>::of(elements.front()) - sizeof(T);
    return sizeof elements + room + elements.size() * owned;  // as if all were like the first
  }
};

template <>
struct ByteSize<std::vector<bool>> {
  static std::uint64_t of(const std::vector<bool>& bits) { return sizeof bits + bits.size() / 8; }
};

}  // namespace brigade::data

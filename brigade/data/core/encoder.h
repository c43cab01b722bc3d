#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace brigade::data {

/// The numbers that are encoded as their bytes in memory: integers of all widths, float, double.
template <class T>
concept CodedNumber = (std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>) ||
                      std::same_as<T, float> || std::same_as<T, double>;

namespace internal {

/// Throws kInvalidArgument if elements took less than a byte each.
void check_encoded(std::size_t bytes, std::size_t elements, std::string_view type);

/// Converts a number's bytes between the machine's byte order and little-endian, in either
/// direction.
template <CodedNumber T>
void to_little_endian(char* bytes) {
  if constexpr (std::endian::native == std::endian::big) std::reverse(bytes, bytes + sizeof(T));
}

}  // namespace internal

/// The output of a `Codec`.
///
/// Thread-safety: one thread at a time.
class Encoder {
 public:
  /// Fixed width, the lowest byte first.
  template <CodedNumber T>
  void number(T value) {
    numbers(&value, 1);
  }
  template <CodedNumber T>
  void numbers(const T* values, std::size_t count) {
    const std::size_t before = bytes_.size();
    bytes_.append(reinterpret_cast<const char*>(values), count * sizeof(T));
    if constexpr (std::endian::native == std::endian::big) {
      for (std::size_t at = before; at < bytes_.size(); at += sizeof(T)) {
        internal::to_little_endian<T>(&bytes_[at]);
      }
    }
  }
  void append(std::string_view bytes) { bytes_.append(bytes); }

  std::size_t size() const { return bytes_.size(); }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// The input of a `Codec`. The bytes may be incomplete or invalid: every call that needs more bytes
/// than are left throws kDataLoss.
///
/// Thread-safety: one thread at a time. The bytes must outlive it.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : left_(bytes) {}

  /// The next `count` bytes, as a view into the input.
  std::string_view take(std::uint64_t count);
  template <CodedNumber T>
  T number() {
    char bytes[sizeof(T)];
    std::memcpy(bytes, take(sizeof(T)).data(), sizeof(T));
    internal::to_little_endian<T>(bytes);
    return std::bit_cast<T>(bytes);
  }
  /// Throws before it allocates memory if there are fewer than `count` numbers left.
  template <CodedNumber T>
  std::vector<T> numbers(std::uint64_t count) {
    check_holds(count, sizeof(T), "a list of numbers");
    std::vector<T> values(count);
    const std::string_view bytes = take(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    for (T& value : values) internal::to_little_endian<T>(reinterpret_cast<char*>(&value));
    return values;
  }
  /// A byte that must be 0 or 1; `what` names it in the error.
  bool flag(std::string_view what);
  /// A length written as u64, of items that take at least `bytes_each` bytes (1 or more) each.
  /// Throws kDataLoss if the bytes left cannot hold that many.
  std::uint64_t length(std::uint64_t bytes_each, std::string_view what);
  /// Throws kDataLoss if there are bytes left.
  void expect_end() const;

  std::size_t left() const { return left_.size(); }

 private:
  void check_holds(std::uint64_t count, std::uint64_t bytes_each, std::string_view what) const;

  std::string_view left_;
};

}  // namespace brigade::data

#pragma once

#include <concepts>
#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

namespace brigade::base {

/// Appends an arithmetic value but bool and char: the shortest text that reads back to the same
/// value, whatever the locale. Defined for all of them.
template <class Number>
void append_number(std::string& text, Number value);

/// Appends what `write(stream, object)` writes.
void append_streamed(std::string& text, const void* object,
                     void (*write)(std::ostream& stream, const void* object));

/// Appends one value as text: strings as they are, bool as "true"/"false", numbers in the shortest
/// form that reads back to the same value, paths unquoted, types with a `to_string` found by
/// argument-dependent lookup through that, and others through `operator<<`. Strings and numbers do
/// not depend on the locale.
template <class T>
void append_text(std::string& text, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    text += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    text += value;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    text += std::string_view(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    append_number(text, value);
  } else if constexpr (requires {
                         { to_string(value) } -> std::convertible_to<std::string_view>;
                       }) {
    text += std::string_view(to_string(value));
  } else if constexpr (requires {
                         { value.string() } -> std::convertible_to<std::string_view>;
                       }) {
    text += std::string_view(value.string());
  } else {
    append_streamed(text, &value, [](std::ostream& stream, const void* object) {
      stream << *static_cast<const T*>(object);
    });
  }
}

/// One value of any type that `append_text` writes: the type of a piece of a message, so that one
/// function, compiled once, writes all messages. A message has a type for each of its pieces, and
/// writing it where it is thrown was a tenth of all code (compare absl::AlphaNum).
///
/// Refers to the value, which has to outlive it. Thread-safety: a value.
class TextPiece {
 public:
  template <class T>
  explicit TextPiece(const T& value) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      const std::string_view text(value);
      data_ = text.data();
      size_ = text.size();
    } else {
      data_ = &value;
      append_ = [](std::string& text, const void* data) {
        append_text(text, *static_cast<const T*>(data));
      };
    }
  }

  void append_to(std::string& text) const {
    if (append_ != nullptr) {
      append_(text, data_);
    } else {
      text.append(static_cast<const char*>(data_), size_);
    }
  }

 private:
  const void* data_ = nullptr;  // characters, or the value that `append_` takes
  std::size_t size_ = 0;
  void (*append_)(std::string& text, const void* data) = nullptr;
};

}  // namespace brigade::base

#include "brigade/io/tensor_slice_key.h"

#include <array>
#include <bit>

namespace brigade::io {
namespace {

constexpr unsigned kMostCodeBytes = 10;  // 7 * 10 bits hold 64

void append_natural_code(std::string& key, std::uint64_t value) {
  const int bytes = (std::bit_width(value) + 7) / 8;
  key += static_cast<char>(bytes);
  for (int i = bytes; i-- > 0;) key += static_cast<char>(value >> (8 * i) & 0xff);
}

void append_text_code(std::string& key, std::string_view text) {
  for (const char c : text) {
    key += c;
    if (c == '\0') key += '\xff';
    if (c == '\xff') key += '\0';
  }
  key += '\0';
  key += '\1';
}

void append_integer_code(std::string& key, std::int64_t value) {
  const bool is_negative = value < 0;
  const auto magnitude = static_cast<std::uint64_t>(is_negative ? ~value : value);
  // One of the 7 n bits is the sign.
  const auto bytes = static_cast<unsigned>(std::bit_width(magnitude)) / 7 + 1;
  std::array<unsigned char, kMostCodeBytes> code{};
  for (unsigned i = 0; i < bytes; ++i) {  // from the lowest byte
    const unsigned shift = 8 * i;
    const std::uint64_t rest = shift < 64 ? static_cast<std::uint64_t>(value) >> shift : 0;
    const bool is_filled = shift >= 64 && is_negative;
    code[bytes - 1 - i] = static_cast<unsigned char>(is_filled ? 0xff : rest);
  }
  for (unsigned bit = 0; bit < bytes; ++bit) {
    code[bit / 8] = static_cast<unsigned char>(code[bit / 8] ^ (0x80U >> bit % 8));
  }
  for (unsigned i = 0; i < bytes; ++i) key += static_cast<char>(code[i]);
}

}  // namespace

std::string tensor_slice_key(std::string_view name, std::span<const SliceExtent> extents) {
  std::string key;
  append_natural_code(key, 0);
  append_text_code(key, name);
  append_natural_code(key, extents.size());
  for (const SliceExtent& each : extents) {
    append_integer_code(key, each.start);
    append_integer_code(key, each.length);
  }
  return key;
}

}  // namespace brigade::io

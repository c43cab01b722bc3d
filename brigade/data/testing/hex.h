#pragma once

#include <string>
#include <string_view>

namespace brigade::data::testing {

/// The bytes of a string of hexadecimal digits; spaces are ignored. For tests only.
inline std::string bytes_of_hex(std::string_view hex) {
  std::string digits;
  for (const char c : hex) {
    if (c != ' ') digits += c;
  }
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace brigade::data::testing

#include "brigade/data/transforms/scan.h"

#include <cstddef>
#include <span>

#include "brigade/base/error.h"

namespace brigade::data::internal {
namespace {

std::size_t value_of_digit(char digit) {
  const std::size_t value = std::string_view("0123456789abcdef").find(digit);
  check_argument(value != std::string_view::npos, "A saved state of scan is broken: '", digit,
                 "' is not a hexadecimal digit");
  return value;
}

}  // namespace

io::StateTree state_of_encoded(std::string_view bytes) {
  return base::to_hex(std::as_bytes(std::span(bytes)));
}

std::string encoded_of_state(const io::StateTree& state) {
  const std::string& text = state.as_string();
  check_argument(text.size() % 2 == 0, "A saved state of scan is broken: half a byte is missing");
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes += static_cast<char>(16 * value_of_digit(text[i]) + value_of_digit(text[i + 1]));
  }
  return bytes;
}

}  // namespace brigade::data::internal

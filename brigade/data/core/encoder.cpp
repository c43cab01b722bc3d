#include "brigade/data/core/encoder.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

[[noreturn]] void fail(std::string_view why) {
  throw Error(ErrorCode::kDataLoss, "The bytes are not an element of this type: ", why,
              "; they are corrupt, or were written by another program.");
}

}  // namespace

namespace internal {

void check_encoded(std::size_t bytes, std::size_t elements, std::string_view type) {
  if (bytes >= elements) return;
  refuse("Codec of ", type, ": ", elements, " elements took ", bytes,
         " bytes; encode must write at least one byte for each.");
}

}  // namespace internal

std::string_view Decoder::take(std::uint64_t count) {
  check_holds(count, 1, "a value");
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}

bool Decoder::flag(std::string_view what) {
  const auto value = number<std::uint8_t>();
  if (value > 1)
    fail(base::str_cat("the first byte of a ", what, " is ", int{value}, ", not 0 or 1"));
  return value == 1;
}

std::uint64_t Decoder::length(std::uint64_t bytes_each, std::string_view what) {
  const auto count = number<std::uint64_t>();
  check_holds(count, bytes_each, what);
  return count;
}

void Decoder::check_holds(std::uint64_t count, std::uint64_t bytes_each,
                          std::string_view what) const {
  if (count <= left_.size() / bytes_each) return;
  fail(base::str_cat(what, " of ", count, " times ", bytes_each, " bytes begins with ",
                     left_.size(), " bytes left"));
}

void Decoder::expect_end() const {
  if (!left_.empty()) fail(base::str_cat(left_.size(), " bytes follow it"));
}

}  // namespace brigade::data

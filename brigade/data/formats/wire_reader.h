#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// The protobuf encoding, as far as examples need it. Messages are read without copying. Internal.
namespace brigade::data::internal {

enum class WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field of a message: its number and its value.
struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;   ///< of a number
  std::string_view bytes{};  ///< of kBytes
};

/// Reads a message field by field. No byte outside the message is accessed.
///
/// Thread-safety: one thread at a time.
class WireReader {
 public:
  /// `part` is inside `whole`, which is the base of byte offsets in errors.
  WireReader(std::string_view part, std::string_view whole)
      : at_(part.data()), end_(part.data() + part.size()), origin_(whole.data()) {}

  bool is_at_end() const { return at_ == end_; }
  /// The next field. Throws kDataLoss if it is malformed or of a type that proto3 does not have.
  WireField next();
  /// The next number of a packed list. Throws kDataLoss if it is malformed.
  std::uint64_t varint() {
    if (at_ != end_ && static_cast<signed char>(*at_) >= 0) {
      return static_cast<unsigned char>(*at_++);
    }
    return long_varint();
  }

 private:
  std::uint64_t long_varint();
  std::uint64_t fixed(std::size_t size);
  std::string_view take(std::uint64_t size);
  [[noreturn]] void fail(std::string_view why) const;

  const char* at_;
  const char* end_;
  const char* origin_;
};

/// Throws kDataLoss: the bytes are not an example because of `why`, at a byte offset.
[[noreturn]] void fail_example(std::string_view why, std::size_t byte);

}  // namespace brigade::data::internal

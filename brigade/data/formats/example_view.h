#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "brigade/data/formats/example.h"

namespace brigade::data {

/// The protobuf encoding, as far as examples need it. Messages are read without copying. Internal.
namespace internal {

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

}  // namespace internal

/// An unparsed feature in the bytes of an example.
///
/// Thread-safety: immutable. Lifetime: that of the bytes.
class FeatureView {
 public:
  FeatureView() = default;
  FeatureView(FeatureKind kind, std::string_view list, std::string_view whole)
      : kind_(kind), list_(list), whole_(whole) {}

  FeatureKind kind() const { return kind_; }
  /// Calls `take(value)` for each value, which must be of that kind. Throws kDataLoss if the list
  /// is malformed.
  template <class Take>
  void each_bytes(Take take) const;
  template <class Take>
  void each_float(Take take) const;
  template <class Take>
  void each_int64(Take take) const;
  /// All values.
  Feature read() const;

 private:
  static float float_of(std::uint64_t bits);
  [[noreturn]] void fail_packed() const;

  FeatureKind kind_ = FeatureKind::kNone;
  std::string_view list_;   // a message BytesList, FloatList or Int64List
  std::string_view whole_;  // the example, for byte offsets in errors
};

/// The features in the bytes of an example, one after the other.
///
/// Thread-safety: one thread at a time. Lifetime: that of the bytes.
class ExampleView {
 public:
  explicit ExampleView(std::string_view bytes)
      : whole_(bytes), example_(bytes, bytes), features_({}, bytes) {}

  /// Advances to the next feature, if there is one. If a name occurs twice, the last one counts.
  /// Throws kDataLoss if the bytes are malformed.
  bool next();
  std::string_view name() const { return name_; }
  const FeatureView& feature() const { return feature_; }

 private:
  void read_entry(std::string_view entry);
  FeatureView feature_in(std::string_view message) const;

  std::string_view whole_;
  internal::WireReader example_;
  internal::WireReader features_;
  std::string_view name_;
  FeatureView feature_;
};

template <class Take>
void FeatureView::each_bytes(Take take) const {
  internal::WireReader list(list_, whole_);
  while (!list.is_at_end()) {
    const internal::WireField field = list.next();
    if (field.number == 1 && field.type == internal::WireType::kBytes) take(field.bytes);
  }
}

template <class Take>
void FeatureView::each_float(Take take) const {
  using internal::WireType;
  internal::WireReader list(list_, whole_);
  while (!list.is_at_end()) {
    const internal::WireField field = list.next();
    if (field.number != 1) continue;
    if (field.type == WireType::kFixed32) take(float_of(field.value));
    if (field.type != WireType::kBytes) continue;
    if (field.bytes.size() % 4 != 0) fail_packed();
    for (std::size_t i = 0; i < field.bytes.size(); i += 4) {
      std::uint64_t bits = 0;
      for (std::size_t k = 4; k > 0; --k) {
        bits = bits << 8 | static_cast<unsigned char>(field.bytes[i + k - 1]);
      }
      take(float_of(bits));
    }
  }
}

template <class Take>
void FeatureView::each_int64(Take take) const {
  using internal::WireType;
  internal::WireReader list(list_, whole_);
  while (!list.is_at_end()) {
    const internal::WireField field = list.next();
    if (field.number != 1) continue;
    if (field.type == WireType::kVarint) take(static_cast<std::int64_t>(field.value));
    if (field.type != WireType::kBytes) continue;
    internal::WireReader packed(field.bytes, whole_);
    while (!packed.is_at_end()) take(static_cast<std::int64_t>(packed.varint()));
  }
}

}  // namespace brigade::data

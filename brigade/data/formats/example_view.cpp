#include "brigade/data/formats/example_view.h"

#include <bit>

#include "brigade/base/error.h"

namespace brigade::data {

namespace internal {

void fail_example(std::string_view why, std::size_t byte) {
  throw Error(ErrorCode::kDataLoss, "broken example: ", why, " at byte ", byte,
              ": is the record a tf.train.Example?");
}

void WireReader::fail(std::string_view why) const {
  fail_example(why, static_cast<std::size_t>(at_ - origin_));
}

std::uint64_t WireReader::long_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) fail("a number is truncated");
    const auto byte = static_cast<unsigned char>(*at_++);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number has more than 10 bytes");
}

std::string_view WireReader::take(std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(end_ - at_)) fail("a field is longer than its message");
  const std::string_view taken(at_, static_cast<std::size_t>(size));
  at_ += size;
  return taken;
}

std::uint64_t WireReader::fixed(std::size_t size) {
  const std::string_view bytes = take(size);
  std::uint64_t value = 0;
  for (std::size_t i = size; i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

WireField WireReader::next() {
  constexpr std::uint64_t kMaxFieldNumber = (1u << 29) - 1;
  const std::uint64_t tag = varint();
  const std::uint64_t number = tag >> 3;
  if (number == 0 || number > kMaxFieldNumber) fail("a field has no valid number");
  WireField field{.number = static_cast<std::uint32_t>(number),
                  .type = static_cast<WireType>(tag & 7)};
  switch (field.type) {
    case WireType::kVarint:
      field.value = varint();
      break;
    case WireType::kFixed64:
      field.value = fixed(8);
      break;
    case WireType::kFixed32:
      field.value = fixed(4);
      break;
    case WireType::kBytes:
      field.bytes = take(varint());
      break;
    default:
      fail("a field has no valid type");
  }
  return field;
}

}  // namespace internal

using internal::WireField;
using internal::WireReader;
using internal::WireType;

float FeatureView::float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

void FeatureView::fail_packed() const {
  internal::fail_example("a list of floats is cut within one",
                         static_cast<std::size_t>(list_.data() - whole_.data()));
}

Feature FeatureView::read() const {
  switch (kind_) {
    case FeatureKind::kBytes: {
      BytesList values;
      each_bytes([&](std::string_view value) { values.emplace_back(value); });
      return values;
    }
    case FeatureKind::kFloat: {
      FloatList values;
      values.reserve(list_.size() / sizeof(float));
      each_float([&](float value) { values.push_back(value); });
      return values;
    }
    case FeatureKind::kInt64: {
      Int64List values;
      each_int64([&](std::int64_t value) { values.push_back(value); });
      return values;
    }
    case FeatureKind::kNone:
      break;
  }
  return std::monostate();
}

bool ExampleView::next() {
  while (true) {
    while (features_.is_at_end()) {
      if (example_.is_at_end()) return false;
      const WireField field = example_.next();
      if (field.number == 1 && field.type == WireType::kBytes) {
        features_ = WireReader(field.bytes, whole_);
      }
    }
    const WireField entry = features_.next();
    if (entry.number != 1 || entry.type != WireType::kBytes) continue;
    read_entry(entry.bytes);
    return true;
  }
}

void ExampleView::read_entry(std::string_view entry) {
  name_ = {};
  feature_ = {};
  WireReader fields(entry, whole_);
  while (!fields.is_at_end()) {
    const WireField field = fields.next();
    if (field.type != WireType::kBytes) continue;
    if (field.number == 1) name_ = field.bytes;
    if (field.number == 2) feature_ = feature_in(field.bytes);
  }
}

FeatureView ExampleView::feature_in(std::string_view message) const {
  FeatureView feature;
  WireReader fields(message, whole_);
  while (!fields.is_at_end()) {
    const WireField field = fields.next();
    if (field.type != WireType::kBytes || field.number > 3) continue;
    feature = FeatureView(static_cast<FeatureKind>(field.number), field.bytes, whole_);
  }
  return feature;
}

}  // namespace brigade::data

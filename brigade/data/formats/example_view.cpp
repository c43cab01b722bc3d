#include "brigade/data/formats/example_view.h"

#include <bit>

namespace brigade::data {

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

#include "brigade/data/formats/example.h"

#include <array>
#include <bit>

#include "brigade/data/formats/example_view.h"

namespace brigade::data {
namespace {

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

void append_field(std::string& bytes, std::uint32_t number, std::string_view content) {
  append_varint(bytes, number << 3 | static_cast<std::uint32_t>(internal::WireType::kBytes));
  append_varint(bytes, content.size());
  bytes += content;
}

std::string list_of(const BytesList& values) {
  std::string list;
  for (const std::string& value : values) append_field(list, 1, value);
  return list;
}

std::string list_of(const FloatList& values) {
  std::string packed;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) packed += static_cast<char>(bits >> shift & 0xff);
  }
  std::string list;
  if (!values.empty()) append_field(list, 1, packed);
  return list;
}

std::string list_of(const Int64List& values) {
  std::string packed;
  for (const std::int64_t value : values) append_varint(packed, static_cast<std::uint64_t>(value));
  std::string list;
  if (!values.empty()) append_field(list, 1, packed);
  return list;
}

std::string list_of(std::monostate) {
  return {};
}

std::string message_of(const Feature& feature) {
  std::string message;
  if (kind_of(feature) == FeatureKind::kNone) return message;
  const std::string list = std::visit([](const auto& values) { return list_of(values); }, feature);
  append_field(message, static_cast<std::uint32_t>(feature.index()), list);
  return message;
}

}  // namespace

std::string_view to_string(FeatureKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "bytes", "float", "int64"};
  return kNames.at(static_cast<std::size_t>(kind));
}

Example parse_example(std::string_view bytes) {
  Example example;
  ExampleView view(bytes);
  while (view.next()) {
    example.features.insert_or_assign(std::string(view.name()), view.feature().read());
  }
  return example;
}

std::string serialize(const Example& example) {
  std::string features;
  for (const auto& [name, feature] : example.features) {
    std::string entry;
    append_field(entry, 1, name);
    append_field(entry, 2, message_of(feature));
    append_field(features, 1, entry);
  }
  std::string bytes;
  append_field(bytes, 1, features);
  return bytes;
}

}  // namespace brigade::data

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "brigade/data/core/byte_size.h"

namespace brigade::data {

/// The values of one feature of an example, in TensorFlow's order of kinds; `std::monostate` is a
/// feature without a value list.
using BytesList = std::vector<std::string>;
using FloatList = std::vector<float>;
using Int64List = std::vector<std::int64_t>;
using Feature = std::variant<std::monostate, BytesList, FloatList, Int64List>;

/// The kind of a `Feature`: its index.
enum class FeatureKind { kNone, kBytes, kFloat, kInt64 };
/// "none", "bytes", "float", "int64".
std::string_view to_string(FeatureKind kind);
inline FeatureKind kind_of(const Feature& feature) {
  return static_cast<FeatureKind>(feature.index());
}

/// A training example as TensorFlow stores it in a record: lists of values by name. To read many
/// with the same features prefer `ExampleParser`, which reads only the requested features.
///
///   data::Example example;
///   example.features["image"] = data::BytesList{pixels};
///   example.features["label"] = data::Int64List{7};
///   writer.write(io::as_bytes(data::serialize(example)));
///
/// TensorFlow counterpart: tf.train.Example.
/// Thread-safety: a value.
struct Example {
  std::map<std::string, Feature, std::less<>> features;
  friend bool operator==(const Example&, const Example&) = default;
  std::uint64_t byte_size() const { return ByteSize<decltype(features)>::of(features); }
};

/// Reads the bytes of a protobuf message tf.train.Example. Unknown fields are skipped.
/// Throws kDataLoss, naming the byte offset, if the bytes are not such a message.
Example parse_example(std::string_view bytes);

/// Serializes an example for `parse_example` and TensorFlow: equal examples give equal
/// bytes, with names in byte order.
std::string serialize(const Example& example);

}  // namespace brigade::data

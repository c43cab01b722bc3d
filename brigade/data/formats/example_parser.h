#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "brigade/data/core/byte_size.h"
#include "brigade/data/formats/example.h"

namespace brigade::data {

/// A feature with the same number of values in every example: the product of `shape`, or one value
/// for an empty shape. TensorFlow counterpart: tf.io.FixedLenFeature.
struct FixedLenFeature {
  FeatureKind kind = FeatureKind::kFloat;
  std::vector<std::int64_t> shape{};
  /// The values used where the feature is missing. Unset: the feature is required.
  Feature default_value{};
};

/// A feature with any number of values; a missing one has none.
/// TensorFlow counterpart: tf.io.VarLenFeature, and FixedLenSequenceFeature.
struct VarLenFeature {
  FeatureKind kind = FeatureKind::kFloat;
};

/// One requested feature.
struct FeatureSpec {
  std::string name;
  std::variant<FixedLenFeature, VarLenFeature> values;
};

/// The requested features of one example, in the order of the specification.
///
/// Thread-safety: a value.
struct ParsedExample {
  std::vector<Feature> features;

  /// The values of a feature, for example `values<float>(2)`. Throws kInvalidArgument if there is
  /// no such feature, or its values are of another kind.
  template <class T>
  const std::vector<T>& values(std::size_t feature) const;
  /// The one value of a feature. Throws kInvalidArgument too if there are more or fewer.
  template <class T>
  const T& value(std::size_t feature) const;
  friend bool operator==(const ParsedExample&, const ParsedExample&) = default;
  std::uint64_t byte_size() const { return ByteSize<std::vector<Feature>>::of(features); }
};

/// Reads the requested features from examples. A function for `map`:
///
///   const auto parse = data::ExampleParser({
///       {"image", data::FixedLenFeature{.kind = data::FeatureKind::kBytes}},
///       {"label", data::FixedLenFeature{.kind = data::FeatureKind::kInt64}},
///   });
///   auto examples = data::records(paths).map(parse, {.parallelism = 4});
///
/// TensorFlow counterpart: tf.io.parse_single_example.
/// Thread-safety: immutable; any number of threads may call it.
class ExampleParser {
 public:
  /// Throws kInvalidArgument, naming the feature, if a name occurs twice, a kind is kNone, a
  /// dimension is negative, or a default has another kind or number of values than requested.
  explicit ExampleParser(std::vector<FeatureSpec> features);

  /// Throws, naming the feature, kInvalidArgument if a feature without a default is missing, or if
  /// one has another kind or number of values; kDataLoss if the bytes are not an example.
  ParsedExample operator()(std::string_view bytes) const;

  const std::vector<FeatureSpec>& features() const { return features_; }
  /// The index of a feature in a `ParsedExample`. Throws kNotFound, listing the features.
  std::size_t index_of(std::string_view name) const;

 private:
  std::vector<FeatureSpec> features_;
};

namespace internal {

[[noreturn]] void fail_feature_access(const ParsedExample& example, std::size_t feature,
                                      std::string_view wanted);

}  // namespace internal

template <class T>
const std::vector<T>& ParsedExample::values(std::size_t feature) const {
  const auto* list =
      feature < features.size() ? std::get_if<std::vector<T>>(&features[feature]) : nullptr;
  if (list == nullptr) {
    internal::fail_feature_access(*this, feature, to_string(kind_of(Feature(std::vector<T>()))));
  }
  return *list;
}

template <class T>
const T& ParsedExample::value(std::size_t feature) const {
  const std::vector<T>& list = values<T>(feature);
  if (list.size() != 1) internal::fail_feature_access(*this, feature, "one value");
  return list.front();
}

}  // namespace brigade::data

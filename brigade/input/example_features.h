#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "brigade/data/formats/example_parser.h"
#include "brigade/input/named_tensors.h"

namespace brigade::input {

/// A feature with any number of steps, each of `shape`. A missing one has none. In a batch,
/// features are padded to the longest, so that batches are dense tensors, which can be split for
/// replicas and passed to models directly.
///
/// TensorFlow counterpart: tf.io.FixedLenSequenceFeature, and VarLenFeature made dense.
struct PaddedFeature {
  /// kFloat gives float32, kInt64 int64.
  data::FeatureKind kind = data::FeatureKind::kFloat;
  /// The shape of one step. The number of values of an example is a multiple of its product.
  std::vector<std::int64_t> shape{};
  /// The padding value.
  at::Scalar padding = 0;
  /// The name of an additional tensor with the number of steps, int64. Empty: none.
  std::string lengths{};
};

/// A byte string that holds numbers in this machine's memory format (little-endian): pixels,
/// embeddings. Torch has no string tensors; with the defaults, other strings, such as a JPEG file,
/// become uint8 [bytes].
///
/// TensorFlow counterpart: FixedLenFeature([], tf.string) and tf.io.decode_raw.
struct RawFeature {
  /// The type of the numbers.
  at::ScalarType dtype = at::kByte;
  /// Unset: [n], the number of values, padded with 0 in a batch.
  std::optional<std::vector<std::int64_t>> shape{};
  /// The bytes used where the feature is missing. Unset: the feature is required.
  std::optional<std::string> default_value{};
  /// If `shape` is unset, the name of an additional tensor with the number of values, int64. Empty:
  /// none.
  std::string lengths{};
};

/// One requested feature. A `data::FixedLenFeature` gives a tensor of its shape, float32 or
/// int64; for bytes use `RawFeature`.
struct TensorFeature {
  std::string name;
  std::variant<data::FixedLenFeature, PaddedFeature, RawFeature> values;
};

/// Parses features of serialized tf.train.Examples into tensors: of one example, or of a whole
/// batch with tensors [N, ...], without intermediate copies. A function for `map`:
///
///   const input::ExampleFeatures parse({
///       {"image", input::RawFeature{.dtype = at::kByte, .shape = {{1, 28, 28}}}},
///       {"label", data::FixedLenFeature{.kind = data::FeatureKind::kInt64}},
///       {"words", input::PaddedFeature{.kind = data::FeatureKind::kInt64, .lengths = "count"}},
///   });
///   auto batches = data::records(paths).shuffle(10'000).batch(64).map(parse);
///   for (const auto& batch : batches) train(batch["image"], batch["label"]);
///
/// `.map(parse).padded_batch(64)` (`.batch(64)` if nothing is padded) gives the same batches, but
/// is slower; use it to transform elements individually. `data::ExampleParser` gives vectors and
/// strings, without torch.
///
/// TensorFlow counterpart: tf.io.parse_example and parse_single_example.
/// Thread-safety: immutable; any number of threads may call it. Copies are cheap.
class ExampleFeatures {
 public:
  /// Throws kInvalidArgument, naming the feature, for duplicate names (including those of lengths),
  /// unsupported kinds and dtypes, negative dimensions, and defaults of another kind or number of
  /// values than requested.
  explicit ExampleFeatures(std::vector<TensorFeature> features);

  /// Parses one example. Throws, naming the feature, kInvalidArgument if a feature without a
  /// default is missing, or if one has another kind or number of values; kDataLoss if the bytes are
  /// not an example.
  NamedTensors operator()(std::string_view example) const;
  /// Parses a batch of examples. Errors also name the example, counted from 0.
  NamedTensors operator()(const std::vector<std::string>& examples) const;

  const std::vector<TensorFeature>& features() const { return *features_; }
  /// The names of the resulting tensors, in the order of the features; lengths follow their
  /// feature.
  const NamedTensors::Names& names() const { return *names_; }

 private:
  std::shared_ptr<const std::vector<TensorFeature>> features_;
  std::shared_ptr<const NamedTensors::Names> names_;
};

}  // namespace brigade::input

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

/// A feature with any number of steps, each of `shape`. A missing one has none. In a batch, what
/// has fewer steps than the longest is padded, so that batches are plain tensors: they are cut for
/// replicas and given to models as they are, which values with offsets, or sparse tensors, are not.
///
/// TensorFlow counterpart: tf.io.FixedLenSequenceFeature, and VarLenFeature made dense.
struct PaddedFeature {
  /// kFloat gives float32, kInt64 int64.
  data::FeatureKind kind = data::FeatureKind::kFloat;
  /// Of one step. An example has a multiple of its product of values.
  std::vector<std::int64_t> shape{};
  /// What is put behind the last step.
  at::Scalar padding = 0;
  /// The name of one more tensor: how many steps there are, int64. Empty: none.
  std::string lengths{};
};

/// One string of bytes that holds numbers as this machine has them in memory (the lowest byte
/// first): pixels, embeddings. Torch has no tensors of strings; what is a string otherwise, such as
/// a JPEG, comes as uint8 [bytes], by the defaults.
///
/// TensorFlow counterpart: FixedLenFeature([], tf.string) and tf.io.decode_raw.
struct RawFeature {
  at::ScalarType dtype = at::kByte;
  /// Unset: [n], as many as there are, padded with 0 in a batch.
  std::optional<std::vector<std::int64_t>> shape{};
  /// The bytes where the feature is missing. Unset: it must be there.
  std::optional<std::string> default_value{};
  /// If `shape` is unset, the name of one more tensor: how many numbers there are, int64. Empty:
  /// none.
  std::string lengths{};
};

/// One feature that is wanted. A `data::FixedLenFeature` gives a tensor of its shape, float32 or
/// int64; for bytes use `RawFeature`.
struct TensorFeature {
  std::string name;
  std::variant<data::FixedLenFeature, PaddedFeature, RawFeature> values;
};

/// Reads features of serialized tf.train.Examples into tensors: those of one example, or of a batch
/// at once, each tensor [N, ...] then, written straight from the bytes. A function for `map`:
///
///   const input::ExampleFeatures parse({
///       {"image", input::RawFeature{.dtype = at::kByte, .shape = {{1, 28, 28}}}},
///       {"label", data::FixedLenFeature{.kind = data::FeatureKind::kInt64}},
///       {"words", input::PaddedFeature{.kind = data::FeatureKind::kInt64, .lengths = "count"}},
///   });
///   auto batches = data::records(paths).shuffle(10'000).batch(64).map(parse);
///   for (const auto& batch : batches) train(batch["image"], batch["label"]);
///
/// `.map(parse).padded_batch(64)` (`.batch(64)`, if nothing is padded) gives the same batches, more
/// slowly; use it where elements are changed one by one. `data::ExampleParser` gives vectors and
/// strings, without torch.
///
/// TensorFlow counterpart: tf.io.parse_example and parse_single_example.
/// Thread-safety: immutable; any number of threads may call it. Copies are cheap.
class ExampleFeatures {
 public:
  /// Throws kInvalidArgument, naming the feature, for names that come twice (those of lengths
  /// count), kinds and dtypes that no tensor of a file has, negative dimensions, and defaults of
  /// another kind or number than wanted.
  explicit ExampleFeatures(std::vector<TensorFeature> features);

  /// One example. Throws, naming the feature, kInvalidArgument if one is missing that has no
  /// default, is of another kind, or has another number of values; kDataLoss if the bytes are no
  /// example.
  NamedTensors operator()(std::string_view example) const;
  /// A batch of examples. Errors name the example too, counted from 0.
  NamedTensors operator()(const std::vector<std::string>& examples) const;

  const std::vector<TensorFeature>& features() const { return *features_; }
  /// The tensors that come out, in the order of the features, lengths behind what they are of.
  const NamedTensors::Names& names() const { return *names_; }

 private:
  std::shared_ptr<const std::vector<TensorFeature>> features_;
  std::shared_ptr<const NamedTensors::Names> names_;
};

}  // namespace brigade::input

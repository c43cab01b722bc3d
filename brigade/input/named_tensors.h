#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/data/core/byte_size.h"
#include "brigade/data/core/codec.h"
#include "brigade/data/core/structure.h"
#include "brigade/data/transforms/padding.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::input {

/// Tensors by name, in a fixed order: an example, or a batch of examples with tensors [N, ...]. The
/// counterpart of the dictionaries in TensorFlow's datasets.
///
///   const auto [images, labels] = batch.pick("image", "label");
///
/// Thread-safety: a value. Copies share memory: never write to the tensors in place.
class NamedTensors {
 public:
  using Names = std::vector<std::string>;

  NamedTensors() = default;
  /// Throws kInvalidArgument if a name occurs twice.
  explicit NamedTensors(std::vector<std::pair<std::string, at::Tensor>> tensors);
  /// Shares `names`, which must be unique, between many objects: `tensors` are in their order.
  NamedTensors(std::shared_ptr<const Names> names, std::vector<at::Tensor> tensors);

  /// Throws kNotFound, listing the names.
  const at::Tensor& operator[](std::string_view name) const;
  /// Several tensors, in the order of the arguments.
  template <class... Name>
  std::array<at::Tensor, sizeof...(Name)> pick(const Name&... name) const {
    return {(*this)[name]...};
  }
  bool contains(std::string_view name) const;
  /// A copy with this tensor replacing the one of that name, or appended.
  NamedTensors with(const std::string& name, at::Tensor tensor) const;
  /// A copy without this tensor. Throws kNotFound.
  NamedTensors without(std::string_view name) const;

  const Names& names() const { return *names_; }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  /// The names, to share with other objects.
  const std::shared_ptr<const Names>& shared_names() const { return names_; }

 private:
  std::size_t index_of(std::string_view name) const;

  std::shared_ptr<const Names> names_ = std::make_shared<const Names>();
  std::vector<at::Tensor> tensors_;
};

/// For `to_device`.
template <class Change>
NamedTensors map_tensors(const NamedTensors& batch, const Change& change) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(batch.tensors().size());
  for (const at::Tensor& tensor : batch.tensors()) tensors.push_back(change(tensor));
  return NamedTensors(batch.shared_names(), std::move(tensors));
}

}  // namespace brigade::input

namespace brigade::data {

template <>
struct ByteSize<input::NamedTensors> {
  static std::uint64_t of(const input::NamedTensors& element);
};

/// Batches have the same names, and each tensor a new first dimension. Throws kInvalidArgument,
/// naming the tensor, if names, shapes or dtypes differ.
///
/// Thread-safety: pure functions.
template <>
struct Structure<input::NamedTensors> {
  using Batch = input::NamedTensors;
  static Batch stack(std::vector<input::NamedTensors>&& elements);
  static std::int64_t size(const Batch& batch);
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end);
};

/// Elements and parts are views of the batch.
///
/// Thread-safety: pure functions.
template <>
struct Unbatch<input::NamedTensors> : Structure<input::NamedTensors> {
  using Element = input::NamedTensors;
  static Element element(const Batch& batch, std::int64_t index);
  static Batch concatenate(std::vector<Batch>&& parts);
};

/// Each tensor is padded separately, with the options of its name; without options, it is padded
/// with zeros to the largest of its batch. `bucket_by_sequence_length` sets the length of the
/// tensors that have options.
///
///   examples.padded_batch(32, {.padding = {{"words", {.value = -1}}}})
///
/// Thread-safety: pure functions.
template <>
struct Padding<input::NamedTensors> {
  using Options = std::map<std::string, TensorPadding>;

  static void check(const Options& options);
  static std::string describe(const Options& options);
  static Options with_length(const Options& options, std::int64_t length);
  static input::NamedTensors stack(std::vector<input::NamedTensors>&& elements,
                                   const Options& options);
};

/// The names, and the tensors in their order.
///
/// Thread-safety: pure functions.
template <>
struct Codec<input::NamedTensors> {
  static std::string name() { return "named_tensors"; }
  static void encode(const input::NamedTensors& element, Encoder& to);
  static input::NamedTensors decode(Decoder& from);
};

}  // namespace brigade::data

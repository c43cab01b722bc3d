#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/image/normalize.h"

namespace brigade::input {

/// Normalizes batches of images where they are used: bytes are a quarter of what floats would take
/// on the way to a GPU, and the GPU converts them in no time. For a dataset whose images are bytes
/// (`ImageOutput::kBytes`):
///
///   const input::ImageNormalizer normalizer({.mean = kMean, .deviation = kDeviation});
///   strategy.distribute(batches).map_on_replica(
///       [normalizer](input::LabeledBatch batch, distribute::ReplicaMapContext&) {
///         batch.features = normalizer(batch.features);
///         return batch;
///       });
///
/// Thread-safety: a value.
class ImageNormalizer {
 public:
  /// Throws kInvalidArgument if a deviation is not greater than 0, and for `flip`, which is for
  /// single images.
  explicit ImageNormalizer(const image::NormalizeOptions& options);
  /// Of bytes to [0, 1], with the bits of `mnist` and `cifar10`: divided by 255, in any layout.
  static ImageNormalizer unit_range() { return {}; }

  /// Images [..., C, H, W], or [..., H, W, C] in that layout, of 1 to 4 channels: uint8 becomes
  /// float32, on CPUs with the bits of `image::normalize`, on the images' device and the calling
  /// thread's current stream; the host does not wait. Throws kInvalidArgument for other dtypes and
  /// shapes.
  at::Tensor operator()(const at::Tensor& images) const;

 private:
  ImageNormalizer() = default;
  at::Tensor channels(const at::Tensor& values, const at::Tensor& images) const;

  image::Layout layout_ = image::Layout::kChannelsFirst;
  at::Tensor factors_;  // [4], as offsets_: value * factor + offset; undefined: unit_range
  at::Tensor offsets_;
};

}  // namespace brigade::input

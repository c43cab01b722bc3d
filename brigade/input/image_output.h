#pragma once

namespace brigade::input {

/// What a dataset of images gives.
enum class ImageOutput {
  kNormalized,  ///< float32, converted on the host
  /// uint8, a quarter of the bytes: convert the batches where they are used, with `ImageNormalizer`
  /// in `map_on_replica`. The values are the same.
  kBytes,
};

}  // namespace brigade::input

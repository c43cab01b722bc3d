#pragma once

#include <cstdint>

namespace brigade::layers {

/// Outputs and input gradients of a linear layer whose weights are much larger than its batch:
/// inputs x [examples, in], weights w [out, in], outputs y [examples, out], all float32 and
/// contiguous.
///
/// Libraries for matrix products copy the weights into another order first. That pays when many
/// examples use them. Of a few examples the copy is most of the work. These kernels read the
/// weights exactly once, as they are in memory. The gradient of the weights has kernels of its own
/// (`sum_of_weight_gradients`).
///
/// Each output is computed by one thread in an order that depends on the shape and the instruction
/// set alone: the number of threads does not change bits. Thread-safety: pure functions, which use
/// libtorch's threads.
class SmallBatchProducts {
 public:
  /// The number of inputs must be a multiple of this.
  static constexpr std::int64_t kInputMultiple = 16;
  /// The most examples for which the kernels are faster than a library's.
  static constexpr std::int64_t kMostExamples = 32;

  /// Whether this processor has the instructions (AVX2 or AVX-512); also, whether libtorch may use
  /// them (the environment variable ATEN_CPU_CAPABILITY).
  static bool are_supported();

  /// `examples` from 1 to `kMostExamples`.
  SmallBatchProducts(std::int64_t examples, std::int64_t in, std::int64_t out)
      : examples_(examples), in_(in), out_(out) {}

  /// y = x w^T
  void outputs(const float* x, const float* w, float* y) const;
  /// dx = dy w, with dy [examples, out]
  void input_gradient(const float* dy, const float* w, float* dx) const;

 private:
  const std::int64_t examples_, in_, out_;
};

}  // namespace brigade::layers

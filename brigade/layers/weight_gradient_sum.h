#pragma once

#include <cstdint>
#include <span>

namespace brigade::layers {

/// A summand of a weight's gradient: a product of two matrices, or a value [out, in] that is known.
struct WeightGradientSummand {
  const float* transposed_dy = nullptr;  ///< [out, examples], the gradients of outputs
  const float* packed_x = nullptr;       ///< see `pack_inputs`
  std::int64_t examples = 0;
  const float* value = nullptr;  ///< instead of the product
  /// After it is pushed on a stack, the two last are replaced by their sum this number of times
  /// (`comm::ReductionTree`). In the end one is left.
  int additions = 0;
};

/// The most values that may be on the stack before one is pushed.
inline constexpr int kMostKeptSums = 12;

/// Writes x [examples, in] in the order in which `sum_of_weight_gradients` reads it.
void pack_inputs(const float* x, std::int64_t examples, std::int64_t in, float* packed_x);

/// sum [out, in] = the sum of dy^T x of several batches and of values. It is computed tile by tile:
/// products are made and added in registers, and the sum is written once. `sum` may be the memory
/// of a value. All is float32 and contiguous. `in` is a multiple of 16;
/// `SmallBatchProducts::are_supported` says whether there are kernels for this processor.
///
/// The bits are those of each product computed alone, with its examples in their order, and of the
/// additions: a sum of one summand is the product. The number of threads changes nothing.
/// Thread-safety: a pure function, which uses libtorch's threads.
void sum_of_weight_gradients(std::span<const WeightGradientSummand> summands, std::int64_t in,
                             std::int64_t out, float* sum);

}  // namespace brigade::layers

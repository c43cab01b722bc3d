#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// What the random initializers are made of: new tensors on the CPU, a pure function of their
/// arguments, with the same bits for any number of threads and under every version of libtorch.
/// `dtype` is a floating one; half types get rounded float32 values.
///
/// Thread-safety: pure functions.
namespace brigade::variables::random {

at::Tensor normal(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed, double mean,
                  double stddev);
/// Values beyond two `stddev` from `mean` are drawn again.
at::Tensor truncated_normal(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed,
                            double mean, double stddev);
/// In [low, high); `low` where the two are equal.
at::Tensor uniform(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed, double low,
                   double high);
/// A float64 matrix whose rows or columns, the fewer, are orthonormal.
at::Tensor orthonormal(std::int64_t rows, std::int64_t columns, std::uint64_t seed);

}  // namespace brigade::variables::random

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// The random values of initializers: new tensors on the CPU. They depend on the arguments only,
/// with the same bits for any number of threads and any version of libtorch. `dtype` must be a
/// floating-point type; half types get rounded float32 values.
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
/// A float64 matrix with orthonormal rows or columns, whichever are fewer.
at::Tensor orthonormal(std::int64_t rows, std::int64_t columns, std::uint64_t seed);

}  // namespace brigade::variables::random

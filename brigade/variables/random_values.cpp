#include "brigade/variables/random_values.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "brigade/base/random.h"

namespace brigade::variables::random {
namespace {

// libtorch's generators may change with its version; these streams never change, and one thread
// draws them, so that the number of threads does not matter.
template <class T, class Draw>
at::Tensor drawn(at::IntArrayRef shape, at::ScalarType dtype, Draw&& draw) {
  auto values = at::empty(shape, dtype);
  auto* first = values.mutable_data_ptr<T>();
  std::generate_n(first, values.numel(), [&] { return draw(T{}); });
  return values;
}

/// Calls `draw` once per element, with a T{}. Half types get rounded float32 values.
template <class Draw>
at::Tensor filled(at::IntArrayRef shape, at::ScalarType dtype, Draw&& draw) {
  if (dtype == at::kDouble) return drawn<double>(shape, dtype, draw);
  const auto values = drawn<float>(shape, at::kFloat, draw);
  return dtype == at::kFloat ? values : values.to(dtype);
}

/// Numbers of the standard normal distribution, both of each Box-Muller pair: half the draws and
/// logarithms of `CounterRng::normal`.
class NormalStream {
 public:
  explicit NormalStream(std::uint64_t seed) : rng_(seed) {}
  double operator()() {
    if (std::exchange(has_second_, !has_second_)) return second_;
    const double radius = std::sqrt(-2 * std::log(1 - rng_.uniform()));
    const double angle = 2 * std::numbers::pi * rng_.uniform();
    second_ = radius * std::sin(angle);
    return radius * std::cos(angle);
  }

 private:
  base::CounterRng rng_;
  bool has_second_ = false;
  double second_ = 0.0;
};

// The same order of additions on every machine, vectorizable.
double dot(const double* a, const double* b, std::int64_t size) {
  constexpr std::int64_t kLanes = 8;
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  double rest = 0.0;
  for (; i < size; ++i) rest += a[i] * b[i];
  for (const double sum : sums) rest += sum;
  return rest;
}

/// Makes the `count` rows of `size` elements orthonormal with the modified Gram-Schmidt method: for
/// random rows it is exact far beyond float32. libtorch's QR would be faster for large matrices,
/// but its last digits depend on the number of threads.
void orthonormalize(double* rows, std::int64_t count, std::int64_t size) {
  for (std::int64_t k = 0; k < count; ++k) {
    double* row = rows + k * size;
    const double scale = 1.0 / std::sqrt(dot(row, row, size));
    for (std::int64_t i = 0; i < size; ++i) row[i] *= scale;
    for (std::int64_t j = k + 1; j < count; ++j) {
      double* other = rows + j * size;
      const double along = dot(row, other, size);
      for (std::int64_t i = 0; i < size; ++i) other[i] -= along * row[i];
    }
  }
}

}  // namespace

at::Tensor normal(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed, double mean,
                  double stddev) {
  NormalStream stream(seed);
  return filled(shape, dtype, [&]<class T>(T) { return static_cast<T>(mean + stddev * stream()); });
}

at::Tensor truncated_normal(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed,
                            double mean, double stddev) {
  NormalStream stream(seed);
  return filled(shape, dtype, [&]<class T>(T) {
    double value = stream();
    while (std::abs(value) >= 2.0) value = stream();
    return static_cast<T>(mean + stddev * value);
  });
}

at::Tensor uniform(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed, double low,
                   double high) {
  base::CounterRng rng(seed);
  return filled(shape, dtype, [&]<class T>(T) {
    const auto draw = [&] { return static_cast<T>(low + (high - low) * rng.uniform()); };
    T value = draw();
    // Rounding to float32 may reach the excluded upper end.
    while (value >= static_cast<T>(high) && static_cast<T>(low) < static_cast<T>(high)) {
      value = draw();
    }
    return value;
  });
}

at::Tensor orthonormal(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const auto few = std::min(rows, columns), many = std::max(rows, columns);
  const auto matrix = normal({few, many}, at::kDouble, seed, 0.0, 1.0);
  orthonormalize(matrix.mutable_data_ptr<double>(), few, many);
  return rows > columns ? matrix.t().contiguous() : matrix;
}

}  // namespace brigade::variables::random

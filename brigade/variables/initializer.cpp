#include "brigade/variables/initializer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/random.h"

namespace brigade::variables {
namespace {

/// New tensors on the CPU. They depend on the arguments only, with the same bits for any number of
/// threads and any version of libtorch. `dtype` must be a floating-point type; half types get
/// rounded float32 values.
namespace random {

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

at::Tensor normal(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed, double mean,
                  double stddev) {
  NormalStream stream(seed);
  return filled(shape, dtype, [&]<class T>(T) { return static_cast<T>(mean + stddev * stream()); });
}

/// Values beyond two `stddev` from `mean` are drawn again.
at::Tensor truncated_normal(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed,
                            double mean, double stddev) {
  NormalStream stream(seed);
  return filled(shape, dtype, [&]<class T>(T) {
    double value = stream();
    while (std::abs(value) >= 2.0) value = stream();
    return static_cast<T>(mean + stddev * value);
  });
}

/// In [low, high); `low` where the two are equal.
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

/// A float64 matrix with orthonormal rows or columns, whichever are fewer.
at::Tensor orthonormal(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const auto few = std::min(rows, columns), many = std::max(rows, columns);
  const auto matrix = normal({few, many}, at::kDouble, seed, 0.0, 1.0);
  orthonormalize(matrix.mutable_data_ptr<double>(), few, many);
  return rows > columns ? matrix.t().contiguous() : matrix;
}

}  // namespace random

void check_shape(const std::string& name, at::IntArrayRef shape) {
  if (std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size >= 0; })) return;
  refuse(name, ": the shape ", shape, " has a negative size; expected 0 or more");
}

void check_floating(const std::string& name, at::ScalarType dtype) {
  if (at::isFloatingType(dtype)) return;
  refuse(name, ": the dtype is ", at::toString(dtype),
         "; expected a floating-point one (for others: zeros, ones, constant)");
}

void check_stddev(const std::string& name, double stddev) {
  if (stddev >= 0.0) return;
  refuse(name, ": stddev is ", stddev, "; expected 0 or more");
}

Initializer constant(std::string name, double value) {
  auto make = [name, value](at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t /*seed*/) {
    if (!at::isFloatingType(dtype) && !at::isComplexType(dtype) && value != std::trunc(value)) {
      refuse(name, ": the dtype is ", at::toString(dtype), ", which cannot hold ", value);
    }
    return at::full(shape, value, at::TensorOptions().dtype(dtype));
  };
  return Initializer(std::move(name), std::move(make));
}

struct Fans {
  double in = 1.0;
  double out = 1.0;
};

Fans fans_of(at::IntArrayRef shape) {
  if (shape.empty()) return {};
  const auto first = static_cast<double>(shape[0]);
  if (shape.size() == 1) return {first, first};
  double window = 1.0;
  for (const auto size : shape.slice(2)) window *= static_cast<double>(size);
  return {static_cast<double>(shape[1]) * window, first * window};
}

double chosen_fan(at::IntArrayRef shape, FanMode mode) {
  const auto fans = fans_of(shape);
  switch (mode) {
    case FanMode::kFanIn:
      return fans.in;
    case FanMode::kFanOut:
      return fans.out;
    case FanMode::kFanAverage:
      return (fans.in + fans.out) / 2;
  }
  refuse("FanMode: unknown value ", static_cast<int>(mode));
}

at::Tensor scaled(const std::string& name, const VarianceScalingOptions& options,
                  at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
  check_floating(name, dtype);
  const double variance = options.scale / std::max(1.0, chosen_fan(shape, options.mode));
  switch (options.distribution) {
    case Distribution::kTruncatedNormal: {
      // The standard deviation of a standard normal distribution cut at +-2.
      constexpr double kDeviationOfCut = .87962566103423978;
      return random::truncated_normal(shape, dtype, seed, 0.0,
                                      std::sqrt(variance) / kDeviationOfCut);
    }
    case Distribution::kUntruncatedNormal:
      return random::normal(shape, dtype, seed, 0.0, std::sqrt(variance));
    case Distribution::kUniform: {
      const double limit = std::sqrt(3.0 * variance);
      return random::uniform(shape, dtype, seed, -limit, limit);
    }
  }
  refuse("Distribution: unknown value ", static_cast<int>(options.distribution));
}

Initializer variance_scaling(const std::string& name, const VarianceScalingOptions& options) {
  if (!(options.scale > 0.0)) {
    refuse(name, ": scale is ", options.scale, "; expected a positive number");
  }
  return Initializer(
      name, [name, options](at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
        return scaled(name, options, shape, dtype, seed);
      });
}

at::Tensor orthogonal(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed,
                      double gain) {
  const std::string name = "orthogonal_initializer";
  check_floating(name, dtype);
  if (shape.size() < 2) {
    refuse(name, ": the shape is ", shape, "; expected at least two dimensions");
  }
  std::int64_t columns = 1;
  for (const auto size : shape.slice(1)) columns *= size;
  const auto matrix = random::orthonormal(shape[0], columns, seed);
  return (matrix * gain).view(shape).to(dtype);
}

}  // namespace

Initializer::Initializer(std::string name, Function function, std::optional<at::ScalarType> dtype)
    : name_(std::move(name)), function_(std::move(function)), dtype_(dtype) {}

Initializer Initializer::constant_value(at::Tensor value) {
  if (!value.defined()) refuse("constant_value: the value is an undefined tensor");
  auto copy = value.detach().to(at::kCPU, value.scalar_type(), /*non_blocking=*/false,
                                /*copy=*/true);
  Initializer initializer(
      "constant value",
      [copy](at::IntArrayRef shape, at::ScalarType /*dtype*/, std::uint64_t /*seed*/) {
        if (shape != copy.sizes()) {
          refuse("constant value: its shape is ", copy.sizes(), ", but the shape asked for is ",
                 shape, "; leave the shape to the value");
        }
        return copy.clone();
      },
      copy.scalar_type());
  initializer.value_ = std::move(copy);
  return initializer;
}

at::Tensor Initializer::operator()(at::IntArrayRef shape, at::ScalarType dtype,
                                   std::uint64_t seed) const {
  if (!function_) refuse("Initializer: there is none; use one of the initializer functions");
  check_shape(name_, shape);
  if (dtype_ && *dtype_ != dtype) {
    refuse(name_, ": it makes ", at::toString(*dtype_), ", but the dtype asked for is ",
           at::toString(dtype));
  }
  return function_(shape, dtype, seed);
}

Initializer zeros_initializer() {
  return constant("zeros_initializer", 0.0);
}

Initializer ones_initializer() {
  return constant("ones_initializer", 1.0);
}

Initializer constant_initializer(double value) {
  return constant("constant_initializer", value);
}

Initializer truncated_normal_initializer(double mean, double stddev) {
  const std::string name = "truncated_normal_initializer";
  check_stddev(name, stddev);
  return Initializer(name, [=](at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
    check_floating(name, dtype);
    return random::truncated_normal(shape, dtype, seed, mean, stddev);
  });
}

Initializer random_normal_initializer(double mean, double stddev) {
  const std::string name = "random_normal_initializer";
  check_stddev(name, stddev);
  return Initializer(name, [=](at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
    check_floating(name, dtype);
    return random::normal(shape, dtype, seed, mean, stddev);
  });
}

Initializer random_uniform_initializer(double low, double high) {
  const std::string name = "random_uniform_initializer";
  if (!(low <= high)) {
    refuse(name, ": the range is ", low, " to ", high, "; expected the lower end first");
  }
  return Initializer(name, [=](at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
    check_floating(name, dtype);
    return random::uniform(shape, dtype, seed, low, high);
  });
}

Initializer variance_scaling_initializer(const VarianceScalingOptions& options) {
  return variance_scaling("variance_scaling_initializer", options);
}

Initializer glorot_uniform_initializer() {
  return variance_scaling("glorot_uniform_initializer",
                          {.mode = FanMode::kFanAverage, .distribution = Distribution::kUniform});
}

Initializer glorot_normal_initializer() {
  return variance_scaling("glorot_normal_initializer", {.mode = FanMode::kFanAverage});
}

Initializer he_uniform_initializer() {
  return variance_scaling("he_uniform_initializer",
                          {.scale = 2.0, .distribution = Distribution::kUniform});
}

Initializer he_normal_initializer() {
  return variance_scaling("he_normal_initializer", {.scale = 2.0});
}

Initializer orthogonal_initializer(double gain) {
  return Initializer("orthogonal_initializer",
                     [gain](at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
                       return orthogonal(shape, dtype, seed, gain);
                     });
}

}  // namespace brigade::variables

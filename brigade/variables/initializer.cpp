#include "brigade/variables/initializer.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/variables/random_values.h"

namespace brigade::variables {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check_shape(const std::string& name, at::IntArrayRef shape) {
  if (std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size >= 0; })) return;
  refuse(base::str_cat(name, ": the shape ", shape, " has a negative size; expected 0 or more"));
}

void check_floating(const std::string& name, at::ScalarType dtype) {
  if (at::isFloatingType(dtype)) return;
  refuse(base::str_cat(name, ": the dtype is ", at::toString(dtype),
                       "; expected a floating-point one (for others: zeros, ones, constant)"));
}

void check_stddev(const std::string& name, double stddev) {
  if (stddev >= 0.0) return;
  refuse(base::str_cat(name, ": stddev is ", stddev, "; expected 0 or more"));
}

Initializer constant(std::string name, double value) {
  auto make = [name, value](at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t /*seed*/) {
    if (!at::isFloatingType(dtype) && !at::isComplexType(dtype) && value != std::trunc(value)) {
      refuse(base::str_cat(name, ": the dtype is ", at::toString(dtype), ", which cannot hold ",
                           value));
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
  refuse(base::str_cat("FanMode: unknown value ", static_cast<int>(mode)));
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
  refuse(base::str_cat("Distribution: unknown value ", static_cast<int>(options.distribution)));
}

Initializer variance_scaling(const std::string& name, const VarianceScalingOptions& options) {
  if (!(options.scale > 0.0)) {
    refuse(base::str_cat(name, ": scale is ", options.scale, "; expected a positive number"));
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
    refuse(base::str_cat(name, ": the shape is ", shape, "; expected at least two dimensions"));
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
          refuse(base::str_cat("constant value: its shape is ", copy.sizes(),
                               ", but the shape asked for is ", shape,
                               "; leave the shape to the value"));
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
    refuse(base::str_cat(name_, ": it makes ", at::toString(*dtype_),
                         ", but the dtype asked for is ", at::toString(dtype)));
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
    refuse(base::str_cat(name, ": the range is ", low, " to ", high,
                         "; expected the lower end first"));
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

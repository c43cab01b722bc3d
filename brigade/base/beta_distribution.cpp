#include "brigade/base/beta_distribution.h"

#include <cmath>
#include <string_view>

#include "brigade/base/error.h"

namespace brigade::base {
namespace {

void check_shape(std::string_view name, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw Error(ErrorCode::kInvalidArgument, "random_beta: ", name, " is ", value,
              "; it must be above 0 and finite");
}

/// The logarithm of a gamma-distributed number, by Marsaglia and Tsang (2000). The number itself
/// may be too small for a double if `shape` is small.
double random_log_gamma(double shape, CounterRng& rng) {
  if (shape < 1) return random_log_gamma(shape + 1, rng) + std::log(1 - rng.uniform()) / shape;
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = rng.normal();
    const double u = 1 - rng.uniform();
    if (c * x <= -1) continue;
    const double log_v = 3 * std::log1p(c * x);
    if (std::log(u) < x * x / 2 + d * (1 - std::exp(log_v) + log_v)) return std::log(d) + log_v;
  }
}

}  // namespace

double random_beta(double alpha, double beta, CounterRng& rng) {
  check_shape("alpha", alpha);
  check_shape("beta", beta);
  const double log_x = random_log_gamma(alpha, rng);
  const double log_y = random_log_gamma(beta, rng);
  return 1 / (1 + std::exp(log_y - log_x));
}

}  // namespace brigade::base

#include "brigade/runs/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "brigade/base/error.h"

namespace brigade::runs {
namespace {

double height(const CurvePoint& point) {
  return std::isfinite(point.value) ? point.value : std::numeric_limits<double>::infinity();
}

bool is_lower(const CurvePoint& a, const CurvePoint& b) {
  return height(a) < height(b);
}

}  // namespace

std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t most) {
  check_argument(most >= 4, "A curve has at least 4 points.");
  if (points.size() <= most) return points;
  const std::size_t parts = (most - 2) / 2;
  const std::size_t inner = points.size() - 2;
  std::vector<CurvePoint> kept = {points.front()};
  for (std::size_t part = 0; part < parts; ++part) {
    const auto begin = points.begin() + 1 + static_cast<std::ptrdiff_t>(inner * part / parts);
    const auto end = points.begin() + 1 + static_cast<std::ptrdiff_t>(inner * (part + 1) / parts);
    auto [first, second] = std::minmax_element(begin, end, is_lower);
    if (second < first) std::swap(first, second);
    kept.push_back(*first);
    if (first != second) kept.push_back(*second);
  }
  kept.push_back(points.back());
  return kept;
}

}  // namespace brigade::runs

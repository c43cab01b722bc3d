#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace brigade::runs {

/// A value that a training wrote.
struct CurvePoint {
  std::int64_t step = 0;
  double value = 0;  ///< May be NaN or infinite.
  double time = 0;   ///< In seconds since 1970.
  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

/// The values of one tag, by step.
struct Curve {
  std::string tag;  ///< As it is in the file: not fit for a terminal or a page.
  std::vector<CurvePoint> points;
};

/// At most `most` (at least 4) of the points, in their order, which look the same when they are
/// plotted: the first, the last, and of each part between them the least and the greatest; a point
/// that is not finite counts as the greatest. Thread-safety: a pure function.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t most);

}  // namespace brigade::runs

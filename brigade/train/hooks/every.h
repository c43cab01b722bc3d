#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace brigade::train {

/// How often something is done. Both may be set, and then either is reason enough (TensorFlow
/// allows one); neither: never.
struct Every {
  std::optional<std::int64_t> steps = std::nullopt;
  std::optional<std::chrono::milliseconds> time = std::nullopt;

  bool is_never() const { return !steps && !time; }
};

}  // namespace brigade::train

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace brigade::train {

/// How often to do something. If both are set, it is due when either has passed (TensorFlow allows
/// only one); if neither is set, never.
struct Every {
  std::optional<std::int64_t> steps = std::nullopt;
  std::optional<std::chrono::milliseconds> time = std::nullopt;

  bool is_never() const { return !steps && !time; }
};

}  // namespace brigade::train

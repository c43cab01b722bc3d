#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/optim/schedule.h"

namespace brigade::optim {

/// For tests: a step and its rate by Keras 3 (TensorFlow 2.21), in float32.
struct MeasuredRate {
  std::int64_t step;
  double rate;
};

inline void expect_rates(const SchedulePtr& schedule, const std::vector<MeasuredRate>& measured) {
  for (const auto& [step, rate] : measured) {
    EXPECT_NEAR((*schedule)(step), rate, 1e-6 * std::abs(rate))
        << schedule->name() << " at step " << step;
  }
}

/// For tests: the message of the kInvalidArgument that `call` throws; empty if it does not throw.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == ErrorCode::kInvalidArgument ? error.what() : "another code";
  }
  return "";
}

}  // namespace brigade::optim

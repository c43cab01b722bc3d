#include "brigade/distribute/step_times.h"

#include <algorithm>
#include <cmath>

#include "brigade/base/strings.h"

namespace brigade::distribute {

namespace {

using comm::StepPhase;

// If two replicas differ by more than this, each is listed.
constexpr double kNotableDifference = 0.1;

bool differ_notably(std::span<const StepTimes> replicas) {
  return std::any_of(comm::kStepPhases.begin(), comm::kStepPhases.end(), [&](StepPhase phase) {
    const auto [least, most] = std::minmax_element(
        replicas.begin(), replicas.end(),
        [&](const auto& a, const auto& b) { return a.fraction(phase) < b.fraction(phase); });
    return most->fraction(phase) - least->fraction(phase) > kNotableDifference;
  });
}

StepTimes sum_of(std::span<const StepTimes> replicas) {
  StepTimes sum;
  for (const StepTimes& replica : replicas) {
    for (std::size_t i = 0; i < sum.phases.size(); ++i) sum.phases[i] += replica.phases[i];
  }
  return sum;
}

std::string fractions_of(const StepTimes& times) {
  std::string text;
  for (const StepPhase phase : comm::kStepPhases) {
    text += base::str_cat(text.empty() ? "" : ", ", phase, " ",
                          std::lround(100.0 * times.fraction(phase)), " %");
  }
  return text;
}

}  // namespace

std::chrono::nanoseconds StepTimes::total() const {
  std::chrono::nanoseconds sum{};
  for (const std::chrono::nanoseconds phase : phases) sum += phase;
  return sum;
}

double StepTimes::fraction(StepPhase phase) const {
  const auto whole = static_cast<double>(total().count());
  return whole > 0.0 ? static_cast<double>(spent(phase).count()) / whole : 0.0;
}

std::string describe_step_breakdown(std::span<const StepTimes> replicas) {
  if (sum_of(replicas).total().count() == 0) return "";
  std::string text = "step breakdown  ";
  if (!differ_notably(replicas)) return text + fractions_of(sum_of(replicas));
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    text += base::str_cat(i == 0 ? "" : "; ", "replica ", i, ": ", fractions_of(replicas[i]));
  }
  return text;
}

}  // namespace brigade::distribute

#include "brigade/distribute/strategies/median_stopping.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {
namespace {

constexpr double kWorst = std::numeric_limits<double>::infinity();

std::string names_in(const TrialMetrics& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return names.empty() ? "none" : base::join(names, ", ");
}

/// Smaller is better.
double cost_in(const TrialReport& report, const MedianStopping& rule) {
  const auto found = report.metrics.find(rule.metric);
  if (found == report.metrics.end() || !std::isfinite(found->second)) return kWorst;
  return rule.maximize ? -found->second : found->second;
}

bool has_reported(const std::vector<TrialReport>& reports, std::int64_t epoch) {
  return std::any_of(reports.begin(), reports.end(),
                     [&](const TrialReport& report) { return report.epoch == epoch; });
}

double mean_up_to(const std::vector<TrialReport>& reports, std::int64_t epoch,
                  const MedianStopping& rule) {
  double sum = 0.0;
  std::int64_t count = 0;
  for (const TrialReport& report : reports) {
    if (report.epoch > epoch) continue;
    sum += cost_in(report, rule);
    ++count;
  }
  return sum / static_cast<double>(count);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1 || values[middle - 1] == values[middle]) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

void MedianStopping::check() const {
  check_argument(!metric.empty(), "MedianStopping: metric is empty; name one that trials report.");
  check_argument(grace_epochs >= 0, "MedianStopping: grace_epochs is ", grace_epochs,
                 "; it must be at least 0.");
  check_argument(min_trials >= 1, "MedianStopping: min_trials is ", min_trials,
                 "; it must be at least 1.");
}

std::optional<std::string> MedianStopping::reason_to_stop(
    const std::vector<TrialReport>& own,
    const std::vector<std::vector<TrialReport>>& others) const {
  check_argument(!own.empty(), "MedianStopping: the trial has no report.");
  const TrialReport& newest = own.back();
  check_argument(newest.metrics.contains(metric), "MedianStopping compares the metric ",
                 base::quoted(metric), ", but the trial reports ", names_in(newest.metrics), ".");
  if (newest.epoch <= grace_epochs) return std::nullopt;
  std::vector<double> means;
  for (const std::vector<TrialReport>& other : others)
    if (has_reported(other, newest.epoch)) means.push_back(mean_up_to(other, newest.epoch, *this));
  if (static_cast<int>(means.size()) < min_trials) return std::nullopt;
  double best = kWorst;
  for (const TrialReport& report : own) best = std::min(best, cost_in(report, *this));
  const std::size_t compared = means.size();
  const double median = median_of(std::move(means));
  if (best <= median && best != kWorst) return std::nullopt;
  const double sign = maximize ? -1.0 : 1.0;
  return base::str_cat("the best ", metric, " up to epoch ", newest.epoch, ", ", sign * best,
                       ", is worse than the median of the means of ", compared, " other trials, ",
                       sign * median);
}

}  // namespace brigade::distribute

#include "brigade/train/callbacks/metric_monitor.h"

#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::train {
namespace {

bool contains_any(std::string_view name, const auto& substrings) {
  for (const std::string_view substring : substrings)
    if (name.find(substring) != std::string_view::npos) return true;
  return false;
}

bool is_lower_better(const std::string& callback, const std::string& name, MonitorMode mode) {
  static constexpr std::array<std::string_view, 5> kLower = {"loss", "error", "mse", "mae",
                                                             "crossentropy"};
  static constexpr std::array<std::string_view, 6> kHigher = {"acc",    "auc",       "AUC",
                                                              "recall", "precision", "similarity"};
  if (mode != MonitorMode::kAuto) return mode == MonitorMode::kMin;
  if (contains_any(name, kLower)) return true;
  if (contains_any(name, kHigher)) return false;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat(callback, ": whether a higher or a lower '", name,
                            "' is better cannot be derived from its name. Set the mode: kMin or "
                            "kMax."));
}

}  // namespace

MetricMonitor::MetricMonitor(std::string callback, std::string name, MonitorMode mode,
                             double min_delta)
    : callback_(std::move(callback)),
      name_(std::move(name)),
      is_lower_better_(is_lower_better(callback_, name_, mode)),
      min_delta_(std::abs(min_delta)) {}

std::optional<double> MetricMonitor::value(const Logs& logs) const {
  const auto found = logs.find(name_);
  if (found != logs.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, value] : logs) names.push_back(known);
  base::log_warning(base::str_cat(callback_, ": there is no metric called '", name_,
                                  "'. Metrics: ", base::join(names, ", "), "."));
  return std::nullopt;
}

bool MetricMonitor::is_improvement(double current, const std::optional<double>& reference) const {
  if (!reference) return true;
  return is_lower_better_ ? current + min_delta_ < *reference : current - min_delta_ > *reference;
}

io::StateTree saved_best(const std::optional<double>& best) {
  io::StateTree list = io::StateTree::list();
  if (best) list.push_back(*best);
  return list;
}

std::optional<double> restored_best(const io::StateTree& tree) {
  const auto& list = tree.as_list();
  return list.empty() ? std::nullopt : std::optional(list.front().as_double());
}

}  // namespace brigade::train

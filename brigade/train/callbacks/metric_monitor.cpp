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
  refuse(callback, ": whether a higher or a lower '", name,
         "' is better cannot be derived from its name. Check the name, or set the mode: kMin or "
         "kMax.");
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
  base::log_warning(callback_, ": there is no metric called '", name_,
                    "'. Metrics: ", base::join(names, ", "), ".");
  return std::nullopt;
}

bool MetricMonitor::is_improvement(double current, const std::optional<double>& reference) const {
  if (!reference) return true;
  return is_lower_better_ ? current + min_delta_ < *reference : current - min_delta_ > *reference;
}

Checkpointable monitor_state(std::string name, std::map<std::string, std::int64_t*> counters,
                             std::optional<double>* best,
                             std::map<std::string, at::Tensor>* tensors) {
  const auto save = [=] {
    CheckpointableState state{.tree = io::StateTree::dict()};
    for (const auto& [key, counter] : counters) state.tree[key] = *counter;
    io::StateTree& list = state.tree["best"] = io::StateTree::list();
    if (*best) list.push_back(**best);
    if (tensors != nullptr) state.tensors = *tensors;
    return state;
  };
  const auto restore = [=](const CheckpointableState& state) {
    std::map<std::int64_t*, std::int64_t> values;  // nothing changes if one is missing
    for (const auto& [key, counter] : counters) values[counter] = state.tree.at(key).as_int64();
    const auto& list = state.tree.at("best").as_list();
    *best = list.empty() ? std::nullopt : std::optional(list.front().as_double());
    for (const auto& [counter, value] : values) *counter = value;
    if (tensors != nullptr) *tensors = state.tensors;
  };
  return {.name = std::move(name), .save = save, .restore = restore};
}

}  // namespace brigade::train

#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/metrics/metric.h"
#include "brigade/optim/schedule.h"
#include "brigade/optim/update_rule.h"
#include "brigade/train/model/loss.h"

namespace brigade::train {

/// The optimizer of a `Model`: an update rule's options, such as `optim::Adam{.learning_rate =
/// 1e-3}`, or a name.
///
/// Thread-safety: a value.
class OptimizerChoice {
 public:
  /// "adagrad", "adam", "adamw", "rmsprop" or "sgd" with Keras's defaults (so Adam's epsilon is
  /// 1e-7). Throws kInvalidArgument, with the nearest name and all names, for an unknown name.
  OptimizerChoice(const char* name) : OptimizerChoice(std::string(name)) {}
  OptimizerChoice(const std::string& name);
  OptimizerChoice(optim::UpdateRulePtr rule) : rule_(std::move(rule)) {}
  template <class Rule>
  requires requires(const Rule& rule) {
    { rule.rule() } -> std::convertible_to<optim::UpdateRulePtr>;
  }
  OptimizerChoice(const Rule& options) : rule_(options.rule()) {}

  const optim::UpdateRulePtr& rule() const { return rule_; }

 private:
  optim::UpdateRulePtr rule_;
};

std::vector<std::string> optimizer_names();

/// A metric: one of Keras's names ("accuracy"; see `metrics::make_metric`), or a metric object that
/// was created under the strategy's scope.
class MetricChoice {
 public:
  MetricChoice(const char* name) : name_(name) {}
  MetricChoice(std::string name) : name_(std::move(name)) {}
  template <class Kind>
  MetricChoice(std::shared_ptr<Kind> metric) : name_(metric->name()), metric_(std::move(metric)) {}

  const std::string& name() const { return name_; }
  /// Null if the metric is created by name.
  const std::shared_ptr<const metrics::PredictionMetric>& metric() const { return metric_; }

 private:
  std::string name_;
  std::shared_ptr<const metrics::PredictionMetric> metric_;
};

/// The options of `Model::compile`.
struct CompileOptions {
  OptimizerChoice optimizer = "adam";
  /// Must be set to train or evaluate.
  std::optional<Loss> loss = std::nullopt;
  std::vector<MetricChoice> metrics = {};
  /// The learning rate as a function of the number of steps over all fits. Unset: the optimizer's
  /// rate.
  optim::SchedulePtr schedule = nullptr;
  /// Parameter groups, gradient accumulation.
  distribute::OptimizerOptions optimizer_options = {};
};

}  // namespace brigade::train

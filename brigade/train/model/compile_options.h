#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/metrics/metric.h"
#include "brigade/optim/schedule.h"
#include "brigade/optim/update_rule.h"
#include "brigade/train/model/custom_train_step.h"
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
///
/// Thread-safety: a value; copies share the metric object.
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

/// The options of `Model::compile`. For a network that returns NamedTensors, losses and metrics
/// have the names of its outputs:
///
///   model.compile({.losses = {{"main", "sparse_categorical_crossentropy"},
///                             {"aux", "sparse_categorical_crossentropy"}},
///                  .loss_weights = {{"aux", 0.4}},
///                  .output_metrics = {{"main", {"accuracy"}}}});
///
/// The logs are then "loss" (main + 0.4 aux), "main_loss", "aux_loss" and "main_accuracy", as in
/// Keras. Labels and sample weights belong to outputs as `ModelBatch` says: one label serves both.
///
/// Sample weights multiply the loss of each example. The mean is over the number of examples, not
/// over the sum of weights: sum(weight * loss) / N, as Keras 3's "sum_over_batch_size". The losses
/// of outputs in the logs are weighted so, but not by `loss_weights`. Metrics are unweighted,
/// except for `weighted_metrics`, which divide by the sum of weights.
struct CompileOptions {
  /// An update rule, or one by its Keras name with its defaults.
  OptimizerChoice optimizer = "adam";
  /// The loss of the only output. This, `losses` or `train_step` must be set to train, and one of
  /// the first two to evaluate.
  std::optional<Loss> loss = std::nullopt;
  /// Of the only output.
  std::vector<MetricChoice> metrics = {};
  /// The learning rate as a function of the number of steps over all fits. Unset: the optimizer's
  /// rate.
  optim::SchedulePtr schedule = nullptr;
  /// Parameter groups, gradient accumulation.
  distribute::OptimizerOptions optimizer_options = {};
  /// The loss of each output, instead of `loss`; outputs without one are only predicted. Keras:
  /// loss as a dictionary.
  std::map<std::string, Loss> losses = {};
  /// What the loss of an output is multiplied by in the sum, 1 if it is not listed.
  std::map<std::string, double> loss_weights = {};
  /// The metrics of each output; the names in logs begin with that of the output ("main_accuracy").
  /// Keras: metrics as a dictionary.
  std::map<std::string, std::vector<MetricChoice>> output_metrics = {};
  /// Metrics that are weighted by the sample weights. One that has the name of another metric is
  /// logged with "weighted_" before its name.
  std::vector<MetricChoice> weighted_metrics = {};
  /// The weighted metrics of each output.
  std::map<std::string, std::vector<MetricChoice>> output_weighted_metrics = {};
  /// The names of the labels of outputs, where these are not the names of the outputs:
  /// `{{"main", "class"}, {"aux", "class"}}`. Not needed for data with a single label.
  std::map<std::string, std::string> labels = {};
  /// Instead of the usual step of training. Keras: overriding train_step.
  std::optional<CustomTrainStep> train_step = std::nullopt;
};

}  // namespace brigade::train

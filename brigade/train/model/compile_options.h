#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/optim/schedule.h"
#include "brigade/train/model/loss.h"
#include "brigade/metrics/metric.h"
#include "brigade/train/model/optimizer_choice.h"

namespace brigade::train {

/// A metric by one of Keras's names ("accuracy"; see `metrics::make_metric`), or one that was made under the
/// strategy's scope.
class MetricChoice {
 public:
  MetricChoice(const char* name) : name_(name) {}
  MetricChoice(std::string name) : name_(std::move(name)) {}
  template <class Kind>
  MetricChoice(std::shared_ptr<Kind> metric) : name_(metric->name()), metric_(std::move(metric)) {}

  const std::string& name() const { return name_; }
  /// Null if it is to be made by name.
  const std::shared_ptr<const metrics::PredictionMetric>& metric() const { return metric_; }

 private:
  std::string name_;
  std::shared_ptr<const metrics::PredictionMetric> metric_;
};

/// What `Model::compile` is told.
struct CompileOptions {
  OptimizerChoice optimizer = "adam";
  /// Must be set to train or evaluate.
  std::optional<Loss> loss = std::nullopt;
  std::vector<MetricChoice> metrics = {};
  /// The rate of each step, by the number of steps made so far over all fits. Unset: the
  /// optimizer's.
  optim::SchedulePtr schedule = nullptr;
  /// Parameter groups, accumulation of micro-batches.
  distribute::OptimizerOptions optimizer_options = {};
};

}  // namespace brigade::train

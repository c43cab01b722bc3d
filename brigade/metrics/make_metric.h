#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/metrics/metric.h"

namespace brigade::metrics {

/// Creates the metric that Keras's compile creates for this name: "accuracy" (see `Accuracy`),
/// "acc", "auc", "AUC", "mse", "binary_accuracy", "BinaryAccuracy", and so on, with Keras's default
/// options. Its `name()` is `name`. Throws kInvalidArgument, with the nearest name and all names,
/// for an unknown name.
std::unique_ptr<PredictionMetric> make_metric(std::string_view name);

/// All names in snake case, without Keras's short names and camel-case names.
std::vector<std::string> metric_names();

}  // namespace brigade::metrics

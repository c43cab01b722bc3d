#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/metrics/metric.h"

namespace brigade::metrics {

/// Makes the metric that Keras's compile makes for this name: "accuracy" (see `Accuracy`), "acc",
/// "auc", "AUC", "mse", "binary_accuracy", "BinaryAccuracy", and so on, in Keras's defaults. It is
/// called as it was asked for. Throws kInvalidArgument naming the nearest and all names if there is
/// none.
std::unique_ptr<PredictionMetric> make_metric(std::string_view name);

/// The names in snake case, without Keras's short and camel-case ones.
std::vector<std::string> metric_names();

}  // namespace brigade::metrics

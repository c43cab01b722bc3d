#include "brigade/metrics/make_metric.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "brigade/base/unknown_name.h"
#include "brigade/metrics/accuracy.h"
#include "brigade/metrics/auc.h"
#include "brigade/metrics/precision_recall.h"
#include "brigade/metrics/regression.h"

namespace brigade::metrics {

namespace {

using MetricPtr = std::unique_ptr<PredictionMetric>;

/// Creates a metric; kFirst are the constructor arguments before the name, if any.
template <class Kind, auto... kFirst>
MetricPtr make_metric_kind(const std::string& name) {
  return std::make_unique<Kind>(kFirst..., name);
}

/// Not by make_metric_kind: Clang has no floating-point template arguments before version 18.
MetricPtr make_binary_accuracy(const std::string& name) {
  return std::make_unique<BinaryAccuracy>(0.5, name);
}

template <class Kind, class Options>
MetricPtr make_metric_with_options(const std::string& name) {
  return std::make_unique<Kind>(Options{}, name);
}

struct NamedMetric {
  std::string_view name, camel_case, short_name;
  MetricPtr (*make)(const std::string& name);
};

constexpr auto kMetrics = std::to_array<NamedMetric>({
    {"accuracy", "Accuracy", "acc", make_metric_kind<Accuracy>},
    {"auc", "AUC", "Auc", make_metric_with_options<Auc, AucOptions>},
    {"binary_accuracy", "BinaryAccuracy", "", make_binary_accuracy},
    {"categorical_accuracy", "CategoricalAccuracy", "", make_metric_kind<CategoricalAccuracy>},
    {"cosine_similarity", "CosineSimilarity", "", make_metric_kind<CosineSimilarity>},
    {"mean_absolute_error", "MeanAbsoluteError", "mae", make_metric_kind<MeanAbsoluteError>},
    {"mean_squared_error", "MeanSquaredError", "mse", make_metric_kind<MeanSquaredError>},
    {"precision", "Precision", "", make_metric_with_options<Precision, PrecisionRecallOptions>},
    {"recall", "Recall", "", make_metric_with_options<Recall, PrecisionRecallOptions>},
    {"root_mean_squared_error", "RootMeanSquaredError", "", make_metric_kind<RootMeanSquaredError>},
    {"sparse_categorical_accuracy", "SparseCategoricalAccuracy", "",
     make_metric_kind<SparseCategoricalAccuracy>},
    {"sparse_top_k_categorical_accuracy", "SparseTopKCategoricalAccuracy", "",
     make_metric_kind<SparseTopKCategoricalAccuracy, 5>},
    {"top_k_categorical_accuracy", "TopKCategoricalAccuracy", "",
     make_metric_kind<TopKCategoricalAccuracy, 5>},
});

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

/// Short names are also accepted in capitals: Keras has "mse" and "MSE".
bool has_name(const NamedMetric& row, std::string_view name) {
  if (name.empty()) return false;
  return name == row.name || name == row.camel_case || name == row.short_name ||
         name == upper(row.short_name);
}

}  // namespace

std::unique_ptr<PredictionMetric> make_metric(std::string_view name) {
  const auto* found = std::find_if(kMetrics.begin(), kMetrics.end(),
                                   [&](const NamedMetric& row) { return has_name(row, name); });
  if (found != kMetrics.end()) return found->make(std::string(name));
  throw base::unknown_name("metric", name, "Metrics", metric_names());
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const NamedMetric& row : kMetrics) names.emplace_back(row.name);
  return names;
}

}  // namespace brigade::metrics

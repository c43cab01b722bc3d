#include "brigade/metrics/precision_recall.h"

#include <ATen/ops/tensor.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/metrics/metric_shapes.h"

namespace brigade::metrics {

namespace {

PrecisionRecallOptions validated(PrecisionRecallOptions options, const std::string& name) {
  for (const double threshold : options.thresholds) {
    check_argument(threshold >= 0 && threshold <= 1, "Metric ", name, ": threshold ", threshold,
                   " must be in [0, 1].");
  }
  check_argument(options.top_k.value_or(1) >= 1, "Metric ", name, ": top_k is ",
                 options.top_k.value_or(1), " and must be at least 1.");
  // keep_top_k sets the other scores to -1e10, which is not above this threshold.
  if (options.thresholds.empty()) options.thresholds = {options.top_k ? -1e10 : 0.5};
  return options;
}

std::int64_t num_thresholds(const PrecisionRecallOptions& options) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(options.thresholds.size()));
}

at::Tensor select_class(const std::string& metric, const at::Tensor& tensor,
                        std::int64_t class_id) {
  check_argument(tensor.dim() > 1 && class_id >= 0 && class_id < tensor.size(-1), "Metric ", metric,
                 ": class_id is ", class_id, " and the values have shape ", tensor.sizes(),
                 "; it must be an index of their last dimension.");
  return tensor.select(-1, class_id);
}

}  // namespace

PrecisionRecallBase::PrecisionRecallBase(PrecisionRecallOptions options, const std::string& name,
                                         Others others)
    : PredictionMetric(name,
                       {{"true_positives", {num_thresholds(options)}},
                        {others == Others::kFalsePositives ? "false_positives" : "false_negatives",
                         {num_thresholds(options)}}}),
      options_(validated(std::move(options), name)),
      others_(others) {
  const std::vector<double>& thresholds = options_.thresholds;
  std::vector<double> ascending = thresholds;
  std::sort(ascending.begin(), ascending.end());
  for (const double threshold : thresholds)
    sorted_index_.push_back(std::lower_bound(ascending.begin(), ascending.end(), threshold) -
                            ascending.begin());
  thresholds_ = at::tensor(ascending, at::kDouble);
}

void PrecisionRecallBase::update(const at::Tensor& labels, const at::Tensor& predictions,
                                 const std::optional<at::Tensor>& sample_weight) const {
  at::Tensor scores = options_.top_k
                          ? internal::keep_top_k(predictions.to(at::kFloat), *options_.top_k)
                          : predictions;
  at::Tensor truth = labels;
  if (options_.class_id) {
    scores = select_class(name(), scores, *options_.class_id);
    truth = select_class(name(), truth, *options_.class_id);
  }
  const internal::ConfusionCounts counts =
      internal::count_confusions(name(), truth, scores, thresholds_, sample_weight);
  add(0, counts.true_positives);
  add(1, others_ == Others::kFalsePositives ? counts.false_positives
                                            : counts.positives - counts.true_positives);
}

std::vector<double> PrecisionRecallBase::results() const {
  const at::Tensor hits_at = sum(0).cpu();
  const at::Tensor others_at = sum(1).cpu();
  std::vector<double> results;
  for (const std::int64_t index : sorted_index_) {
    const double hits = hits_at[index].item<double>();
    const double all = hits + others_at[index].item<double>();
    results.push_back(all == 0 ? 0.0 : hits / all);
  }
  return results;
}

double PrecisionRecallBase::result() const {
  check_state(sorted_index_.size() == 1, "Metric ", name(), " has ", sorted_index_.size(),
              " thresholds: call results(), which returns a result for each.");
  return results().front();
}

Precision::Precision(PrecisionRecallOptions options, const std::string& name)
    : PrecisionRecallBase(std::move(options), name, Others::kFalsePositives) {}

Recall::Recall(PrecisionRecallOptions options, const std::string& name)
    : PrecisionRecallBase(std::move(options), name, Others::kFalseNegatives) {}

}  // namespace brigade::metrics

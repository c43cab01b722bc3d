#include "brigade/metrics/auc.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "brigade/base/error.h"
#include "brigade/metrics/metric_shapes.h"

namespace brigade::metrics {

namespace {

enum SlotIndex : std::size_t { kTruePositives, kFalsePositives, kTrueNegatives, kFalseNegatives };

std::vector<double> make_thresholds(const AucOptions& options) {
  constexpr double kEpsilon = 1e-7;  // Keras's
  std::vector<double> thresholds = options.thresholds;
  if (thresholds.empty()) {
    check_argument(options.num_thresholds > 1, "Auc: num_thresholds is ", options.num_thresholds,
                   " and must be at least 2.");
    for (std::int64_t i = 1; i + 1 < options.num_thresholds; ++i)
      thresholds.push_back(static_cast<double>(i) /
                           static_cast<double>(options.num_thresholds - 1));
  }
  for (const double threshold : thresholds) {
    check_argument(threshold >= 0 && threshold <= 1, "Auc: threshold ", threshold,
                   " must be in [0, 1].");
  }
  std::sort(thresholds.begin(), thresholds.end());
  thresholds.insert(thresholds.begin(), -kEpsilon);
  thresholds.push_back(1 + kEpsilon);
  return thresholds;
}

double divide_no_nan(double a, double b) {
  return b == 0 ? 0.0 : a / b;
}

/// The counts at each threshold.
struct Counts {
  std::vector<double> tp, fp, tn, fn;
  std::size_t size() const { return tp.size(); }
};

double interpolated_pr_area(const Counts& s) {
  double area = 0;
  for (std::size_t i = 0; i + 1 < s.size(); ++i) {
    const double p = s.tp[i] + s.fp[i];
    const double next_p = s.tp[i + 1] + s.fp[i + 1];
    const double dtp = s.tp[i] - s.tp[i + 1];
    const double slope = divide_no_nan(dtp, std::max(p - next_p, 0.0));
    const double intercept = s.tp[i + 1] - slope * next_p;
    const double ratio = p > 0 && next_p > 0 ? p / next_p : 1.0;
    area += divide_no_nan(slope * (dtp + intercept * std::log(ratio)),
                          std::max(s.tp[i + 1] + s.fn[i + 1], 0.0));
  }
  return area;
}

struct Point {
  double x, y;
};

Point point_of(const Counts& s, std::size_t i, AucCurve curve) {
  const double recall = divide_no_nan(s.tp[i], s.tp[i] + s.fn[i]);
  if (curve == AucCurve::kRoc) return {divide_no_nan(s.fp[i], s.fp[i] + s.tn[i]), recall};
  return {recall, divide_no_nan(s.tp[i], s.tp[i] + s.fp[i])};
}

double height(double a, double b, AucSummation summation) {
  if (summation == AucSummation::kMinoring) return std::min(a, b);
  if (summation == AucSummation::kMajoring) return std::max(a, b);
  return (a + b) / 2;
}

double area_of(const Counts& s, const AucOptions& options) {
  if (options.curve == AucCurve::kPr && options.summation == AucSummation::kInterpolation)
    return interpolated_pr_area(s);
  double area = 0;
  for (std::size_t i = 0; i + 1 < s.size(); ++i) {
    const Point here = point_of(s, i, options.curve);
    const Point next = point_of(s, i + 1, options.curve);
    area += (here.x - next.x) * height(here.y, next.y, options.summation);
  }
  return area;
}

std::vector<double> to_vector(const at::Tensor& doubles) {
  const at::Tensor host = doubles.cpu().contiguous();
  const auto* begin = host.const_data_ptr<double>();
  return {begin, begin + host.numel()};
}

}  // namespace

Auc::Auc(const AucOptions& options, const std::string& name)
    : PredictionMetric(name, slots_for(make_thresholds(options).size())),
      options_(options),
      thresholds_(at::tensor(make_thresholds(options), at::kDouble)) {}

std::vector<Auc::Slot> Auc::slots_for(std::size_t thresholds) {
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(thresholds)};
  return {{"true_positives", shape},
          {"false_positives", shape},
          {"true_negatives", shape},
          {"false_negatives", shape}};
}

void Auc::update(const at::Tensor& labels, const at::Tensor& predictions,
                 const std::optional<at::Tensor>& sample_weight) const {
  const at::Tensor floats = predictions.to(at::kFloat);
  const at::Tensor scores = options_.from_logits ? floats.sigmoid() : floats.clamp(0, 1);
  const internal::ConfusionCounts counts =
      internal::count_confusions("Auc", labels, scores, thresholds_, sample_weight);
  add(kTruePositives, counts.true_positives);
  add(kFalsePositives, counts.false_positives);
  add(kTrueNegatives, counts.negatives - counts.false_positives);
  add(kFalseNegatives, counts.positives - counts.true_positives);
}

double Auc::result() const {
  const Counts counts{.tp = to_vector(sum(kTruePositives)),
                      .fp = to_vector(sum(kFalsePositives)),
                      .tn = to_vector(sum(kTrueNegatives)),
                      .fn = to_vector(sum(kFalseNegatives))};
  return area_of(counts, options_);
}

}  // namespace brigade::metrics

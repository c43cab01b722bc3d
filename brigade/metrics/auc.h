#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/metrics/metric.h"

namespace brigade::metrics {

/// The curve whose area is computed.
enum class AucCurve {
  kRoc,  ///< true positive rate over false positive rate
  kPr    ///< precision over recall
};

/// How the curve is interpolated between two thresholds.
enum class AucSummation {
  kInterpolation,  ///< linear for ROC; for PR as in Davis and Goadrich (2006)
  kMinoring,       ///< the lower of the two heights
  kMajoring        ///< the higher of the two heights
};

/// Options of Auc.
struct AucOptions {
  /// The number of evenly spaced thresholds in [0, 1]; the more, the closer to the true area.
  std::int64_t num_thresholds = 200;
  /// The curve whose area is computed.
  AucCurve curve = AucCurve::kRoc;
  /// How the curve runs between two thresholds. Keras: summation_method.
  AucSummation summation = AucSummation::kInterpolation;
  /// Thresholds in [0, 1], instead of `num_thresholds`; the two ends of [0, 1] are added.
  std::vector<double> thresholds = {};
  /// Whether predictions are logits, whose sigmoid is taken first, or probabilities.
  bool from_logits = false;
};

/// The area under a curve of a binary classifier, approximated by counts at thresholds. Labels (0
/// or 1) and predictions (clamped to [0, 1]) have the same shape, or differ by a last dimension of
/// 1; all elements count together. Keras: AUC, without multi_label and PRGAIN. The thresholds are
/// Keras's: the outermost lie 1e-7 outside of [0, 1]. A prediction that equals a threshold up to
/// rounding may count on either side of it.
class Auc final : public PredictionMetric {
 public:
  /// Throws kInvalidArgument for fewer than 2 thresholds and for thresholds outside of [0, 1].
  explicit Auc(const AucOptions& options = {}, const std::string& name = "auc");
  double result() const override;

 private:
  static std::vector<Slot> slots_for(std::size_t thresholds);
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const std::optional<at::Tensor>& sample_weight) const override;
  AucOptions options_;
  at::Tensor thresholds_;
};

}  // namespace brigade::metrics

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/metrics/metric.h"

namespace brigade::metrics {

/// What the area lies under.
enum class AucCurve {
  kRoc,  ///< true positive rate over false positive rate
  kPr    ///< precision over recall
};

/// How the curve goes from one threshold to the next.
enum class AucSummation {
  kInterpolation,  ///< straight for ROC; for PR as Davis and Goadrich (2006) say
  kMinoring,       ///< at the lower of the two heights
  kMajoring        ///< at the higher of the two
};

/// Whether predictions are probabilities already.
enum class FromLogits { kNo, kYes };

struct AucOptions {
  /// Equally far apart in [0, 1]; the more, the closer to the true area.
  std::int64_t num_thresholds = 200;
  AucCurve curve = AucCurve::kRoc;
  AucSummation summation = AucSummation::kInterpolation;
  /// Thresholds in [0, 1] instead of `num_thresholds`; ends are put before and behind them.
  std::vector<double> thresholds = {};
  /// With kYes predictions go through the logistic function first.
  FromLogits from_logits = FromLogits::kNo;
};

/// The area under a curve of a binary classifier, by sums at thresholds. Labels (0 or 1) and
/// predictions (in [0, 1]; others are moved there) have the same shape, or differ by a last
/// dimension of 1; all their elements count together. Keras: AUC, without multi_label and PRGAIN;
/// its thresholds, the outermost 1e-7 outside of [0, 1]. A prediction within rounding of a
/// threshold may fall to its other side.
class Auc final : public PredictionMetric {
 public:
  /// Throws kInvalidArgument for fewer than 2 thresholds and for some outside of [0, 1].
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

#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "brigade/metrics/mean.h"

namespace brigade::metrics {

// Labels and predictions have the same shape, [N] or [N, ..., values], or differ by a last
// dimension of 1. An example's error is the mean over its last dimension. For [N] each element is
// an example, where Keras takes the whole batch as one example.

/// The mean of (prediction - label)^2. Keras: MeanSquaredError.
class MeanSquaredError final : public MeanOfExamples {
 public:
  explicit MeanSquaredError(const std::string& name = "mean_squared_error");
};

/// The square root of MeanSquaredError. Keras: RootMeanSquaredError.
class RootMeanSquaredError final : public MeanOfExamples {
 public:
  explicit RootMeanSquaredError(const std::string& name = "root_mean_squared_error");
  double result() const override;
};

/// The mean of |prediction - label|. Keras: MeanAbsoluteError.
class MeanAbsoluteError final : public MeanOfExamples {
 public:
  explicit MeanAbsoluteError(const std::string& name = "mean_absolute_error");
};

/// The mean cosine of the angle between labels and predictions along the last dimension; 0 for a
/// vector of zeros. Keras: CosineSimilarity.
class CosineSimilarity final : public MeanOfExamples {
 public:
  explicit CosineSimilarity(const std::string& name = "cosine_similarity");
};

}  // namespace brigade::metrics

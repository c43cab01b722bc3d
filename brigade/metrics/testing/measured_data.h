#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <cstdint>

namespace brigade::metrics {

/// For tests: the data for which the expected values were computed with TensorFlow 2.21 (Keras 3):
/// 60 numbers in [0, 1) from a linear congruential generator, as float32, and labels made of two
/// such series.
inline at::Tensor measured_numbers(std::int64_t seed) {
  constexpr std::int64_t kCount = 60;
  constexpr std::int64_t kModulus = std::int64_t{1} << 31;
  at::Tensor numbers = at::empty({kCount}, at::kDouble);
  for (std::int64_t i = 0; i < kCount; ++i) {
    seed = (1103515245 * seed + 12345) % kModulus;
    numbers.mutable_data_ptr<double>()[i] =
        static_cast<double>(seed) / static_cast<double>(kModulus);
  }
  return numbers;
}

struct MeasuredBinary {
  at::Tensor predictions = measured_numbers(1).to(at::kFloat);  ///< [60]
  at::Tensor labels = ((measured_numbers(1) + measured_numbers(7)) / 2).gt(0.55).to(at::kDouble);
  at::Tensor weights = measured_numbers(11);
};

/// Data of 4 classes.
struct MeasuredClasses {
  at::Tensor predictions = measured_numbers(1).to(at::kFloat).view({15, 4});
  at::Tensor others = measured_numbers(7).to(at::kFloat).view({15, 4});
  at::Tensor labels = at::tensor({2, 0, 3, 0, 0, 3, 3, 0, 2, 3, 1, 1, 1, 3, 1});
  at::Tensor one_hot = labels.unsqueeze(1).eq(at::arange(4)).to(at::kFloat);
  at::Tensor weights = measured_numbers(11).narrow(0, 0, 15);
};

/// The tolerance for a measured value: Keras adds up in float32.
inline constexpr double kMeasured = 2e-6;

/// For tests: the result of `metric` for one batch.
template <class Metric, class... Weights>
double result_of(const Metric& metric, const at::Tensor& labels, const at::Tensor& predictions,
                 const Weights&... weights) {
  metric.update_state(labels, predictions, weights...);
  return metric.result();
}

}  // namespace brigade::metrics

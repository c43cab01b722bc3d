#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace brigade::slim {

/// Finds total losses that are not finite. On CPUs each is looked at when it is known. On a GPU the
/// host does not wait for them: the GPU keeps the first that is not finite, with its step, and the
/// host reads that when it is due.
///
/// Thread-safety: one thread.
class LossCheck {
 public:
  /// On a GPU every `every`-th loss is due.
  explicit LossCheck(std::int64_t every) : every_(every) {}

  /// The loss, a scalar, of the update after `step` others. Throws if the check is due.
  void add(const at::Tensor& loss, std::int64_t step);
  /// Reads what was added. Throws kDataLoss for a loss that was not finite, naming its step and its
  /// value, and forgets it.
  void check();

 private:
  const std::int64_t every_;
  std::int64_t unread_ = 0;
  at::Tensor loss_;  // the first that is not finite, or the last; undefined: none was added
  at::Tensor step_;  // of that loss
};

/// Throws kDataLoss for a loss that is not finite. `consequence` says what it means for the
/// weights.
void check_finite(double loss, std::int64_t step, const char* consequence);

}  // namespace brigade::slim

#include "brigade/slim/loss_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::slim {

void check_finite(double loss, std::int64_t step, const char* consequence) {
  if (std::isfinite(loss)) return;
  throw Error(ErrorCode::kDataLoss, "LossTensor is inf or nan: the total loss of global step ",
              step, " is ", loss, "; ", consequence,
              ". Lower the learning rate, or look for a division by zero.");
}

void LossCheck::add(const at::Tensor& loss, std::int64_t step) {
  const at::NoGradGuard no_grad;
  const at::Tensor value = loss.to(at::kDouble);
  const at::Tensor number = at::full_like(value, static_cast<double>(step));
  if (loss_.defined()) {
    const at::Tensor is_first = at::isfinite(loss_);
    loss_ = at::where(is_first, value, loss_);
    step_ = at::where(is_first, number, step_);
  } else {
    loss_ = value;
    step_ = number;
  }
  if (++unread_ >= every_ || loss.device().is_cpu()) check();
}

void LossCheck::check() {
  if (!loss_.defined()) return;
  const at::Tensor read = at::stack({std::exchange(loss_, {}), std::exchange(step_, {})}).cpu();
  unread_ = 0;
  check_finite(read[0].item<double>(), static_cast<std::int64_t>(read[1].item<double>()),
               "the updates since then have changed the weights: continue from a checkpoint before "
               "that step");
}

}  // namespace brigade::slim

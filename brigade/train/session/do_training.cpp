#include "brigade/train/session/do_training.h"

#include <cmath>
#include <cstdio>

#include "brigade/base/error.h"
#include "brigade/base/log.h"

namespace brigade::train {

namespace {

void log_step(std::int64_t step, double loss) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.4g", loss);
  base::log_info("Step ", step, " with loss ", text);
}

double checked(const at::Tensor& loss, std::int64_t step) {
  const auto value = loss.item<double>();
  if (!std::isfinite(value)) {
    throw Error(ErrorCode::kDataLoss, "The loss of step ", step, " is ", value,
                ": lower the learning rate, or look for a division by zero.");
  }
  return value;
}

}  // namespace

DoTrainingResult do_training(const UpdateFunction& update, const DoTrainingOptions& options) {
  check_argument(options.log_every > 0, "log_every is ", options.log_every,
                 " and must be positive.");
  DoTrainingResult result;
  at::Tensor loss;
  while (!options.steps || result.steps < *options.steps) {
    const std::optional<at::Tensor> next = update();
    if (!next) break;
    loss = *next;
    if (result.steps == 0) result.first_loss = checked(loss, 0);
    if (result.steps % options.log_every == 0) {
      (options.report ? options.report : log_step)(result.steps, checked(loss, result.steps));
    }
    ++result.steps;
  }
  if (result.steps > 0) result.final_loss = checked(loss, result.steps - 1);
  return result;
}

}  // namespace brigade::train

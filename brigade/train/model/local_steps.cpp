#include "brigade/train/model/local_steps.h"

namespace brigade::train::internal {

std::optional<FitStep> LocalSteps::next(const Request&) {
  const auto batch = iterator_.next();
  if (!batch) return std::nullopt;
  const ClassWeights* const weights = class_weights_ ? &*class_weights_ : nullptr;
  return FitStep{.values = trainer_.train(*batch, weights), .examples = batch->examples()->global};
}

std::optional<Logs> LocalSteps::validate(const std::function<bool()>&) {
  if (!validation_) return std::nullopt;
  return evaluate_batches(trainer_, validation_->data, validation_->steps);
}

}  // namespace brigade::train::internal

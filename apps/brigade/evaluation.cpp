#include "apps/brigade/evaluation.h"

#include "brigade/base/error.h"

namespace brigade::command {

std::optional<train::EvaluationResult> evaluate_unless_interrupted(
    distribute::Strategy& strategy, const Model& model,
    const data::Dataset<input::LabeledBatch>& batches, const Interrupt& interrupt) {
  // A collective evaluation: one worker must not stop alone.
  if (strategy.num_workers() > 1) return train::evaluate(strategy, model, batches);
  const auto guarded = batches.map([&interrupt](input::LabeledBatch batch) {
    if (interrupt.received()) throw Error(ErrorCode::kCancelled, "interrupted");
    return batch;
  });
  try {
    return train::evaluate(strategy, model, guarded);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || !interrupt.received()) throw;
    return std::nullopt;
  }
}

}  // namespace brigade::command

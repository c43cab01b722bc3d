#pragma once

#include <optional>

#include "apps/brigade/interrupt.h"
#include "apps/brigade/training_loop.h"
#include "brigade/train/model/evaluate.h"

namespace brigade::command {

/// `train::evaluate`, stopped at the next batch after a signal: then nothing is returned.
std::optional<train::EvaluationResult> evaluate_unless_interrupted(
    distribute::Strategy& strategy, const Model& model,
    const data::Dataset<input::LabeledBatch>& batches, const Interrupt& interrupt);

}  // namespace brigade::command

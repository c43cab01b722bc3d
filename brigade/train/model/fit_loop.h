#pragma once

#include <cstdint>
#include <optional>

#include "brigade/train/callbacks/history.h"
#include "brigade/train/model/fit_options.h"
#include "brigade/train/model/fit_steps.h"
#include "brigade/train/model/model_batches.h"
#include "brigade/train/model/trainer.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// Runs the epochs of one `Model::fit`, whose steps a session runs; for `Model` only.
///
/// Checkpoints contain the epoch and batch, the metrics, and what `steps` have of the data, which
/// are added to `state`. When the session restores a checkpoint, the loop continues from there.
History run_fit(internal::Trainer& trainer, TrainingState& state, internal::FitSteps& steps,
                const FitOptions& options);

/// The metrics of `trainer` over one epoch of `data`, or its first `steps` batches, in evaluation
/// mode. Afterwards the network is in training mode, and the metrics are reset.
Logs evaluate_batches(internal::Trainer& trainer, const internal::DistributedBatches& data,
                      const std::optional<std::int64_t>& steps);

}  // namespace brigade::train

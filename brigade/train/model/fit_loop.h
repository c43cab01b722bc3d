#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "brigade/train/callbacks/history.h"
#include "brigade/train/model/epoch_iterator.h"
#include "brigade/train/model/fit_context.h"
#include "brigade/train/model/fit_options.h"
#include "brigade/train/model/trainer.h"
#include "brigade/train/session/session.h"

namespace brigade::train {

/// The epochs of one `Model::fit`, whose steps a session runs; for `Model` only.
///
/// Checkpoints contain the epoch and batch, the metrics, and the position in the data. When the
/// session restores a checkpoint, the loop continues from there.
///
/// Thread-safety: one thread, once.
class FitLoop {
 public:
  using Distributed = LabeledData::Distributed;

  /// Adds the state of the loop to `state`. The arguments must outlive this object.
  FitLoop(internal::Trainer& trainer, TrainingState& state, internal::EpochIterator& iterator,
          const FitOptions& options, const std::optional<Distributed>& validation);

  History run();

 private:
  using Call = void (Callback::*)(FitContext&);
  void add_checkpointables();
  void begin_epoch();
  void run_steps(MonitoredTrainingSession& session);
  void run_step(MonitoredTrainingSession& session);
  bool has_next_step();
  void end_epoch();
  void validate();
  void call(Call function);

  internal::Trainer& trainer_;
  internal::EpochIterator& iterator_;
  const FitOptions& options_;
  const std::optional<Distributed>& validation_;
  std::vector<CallbackPtr> callbacks_;
  FitContext context_;
  History history_;
};

/// The metrics of `trainer` over one epoch of `data`, or its first `steps` batches, in evaluation
/// mode. Afterwards the network is in training mode, and the metrics are reset.
Logs evaluate_batches(internal::Trainer& trainer, const LabeledData::Distributed& data,
                      const std::optional<std::int64_t>& steps);

}  // namespace brigade::train

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "brigade/train/model/epoch_iterator.h"
#include "brigade/train/model/fit_context.h"
#include "brigade/train/model/fit_options.h"
#include "brigade/train/callbacks/history.h"
#include "brigade/train/session/session.h"
#include "brigade/train/model/trainer.h"

namespace brigade::train {

/// The epochs of one `Model::fit`, each step of which a session runs; for `Model` only.
///
/// The position (epoch and batch) is a part of the checkpoint, and so are the figures and the walk
/// over the data. Where the session goes back to a checkpoint, the loop goes back with it.
///
/// Thread-safety: one thread, once.
class FitLoop {
 public:
  using Distributed = LabeledData::Distributed;

  /// `state` gets the loop's own parts. What is passed must outlive it.
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

/// The figures of `trainer` over one pass of `data`, or its first `steps` batches, in evaluation
/// mode. The network is in training mode afterwards, and the figures are reset.
Logs evaluate_batches(internal::Trainer& trainer, const LabeledData::Distributed& data,
                      const std::optional<std::int64_t>& steps);

}  // namespace brigade::train

#pragma once

#include <optional>

#include "brigade/base/clock.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/graph/operation_recorder.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// Writes the graph of the model (`model_graph`) for TensorBoard once, after the first step, whose
/// operations it records.
///
/// Thread-safety: the thread of the training.
class GraphWriter {
 public:
  struct Options {
    bool write_graph = true;
  };
  explicit GraphWriter(const Options& options) : is_due_(options.write_graph) {}

  /// Call it before each step, also after a step that failed. `clock` must outlive the step.
  void before_step(const base::Clock& clock);
  void after_step(summary::SummaryWriter& summaries, const TrainingState& state);
  /// Stops without writing anything.
  void stop() { recorder_.reset(); }

 private:
  bool is_due_;
  std::optional<OperationRecorder> recorder_;
};

}  // namespace brigade::train

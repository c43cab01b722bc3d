#pragma once

#include <optional>

#include "brigade/base/clock.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/graph/operation_recorder.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// Whether TensorBoard gets the model's graph.
enum class WriteGraph { kNo, kYes };

/// Writes the graph of a training's model (`model_graph`), once, behind the first step, whose
/// operations it records.
///
/// Thread-safety: the training's thread.
class GraphWriter {
 public:
  explicit GraphWriter(WriteGraph write) : is_due_(write == WriteGraph::kYes) {}

  /// Again, if a step has failed. `clock` must outlive the step.
  void before_step(const base::Clock& clock);
  void after_step(summary::SummaryWriter& summaries, const TrainingState& state);
  /// Without a step behind it: nothing is written.
  void stop() { recorder_.reset(); }

 private:
  bool is_due_;
  std::optional<OperationRecorder> recorder_;
};

}  // namespace brigade::train

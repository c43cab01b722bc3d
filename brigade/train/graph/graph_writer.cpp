#include "brigade/train/graph/graph_writer.h"

#include "brigade/train/graph/model_graph.h"

namespace brigade::train {

void GraphWriter::before_step(const base::Clock& clock) {
  if (!is_due_) return;
  recorder_.emplace(clock);
  recorder_->start();
}

void GraphWriter::after_step(summary::SummaryWriter& summaries, const TrainingState& state) {
  if (!recorder_) return;
  is_due_ = false;
  const OperationRecord record = recorder_->stop();
  recorder_.reset();
  summaries.graph(model_graph(state.strategy(), state.variables(), record).nodes);
}

}  // namespace brigade::train

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/distribute/strategy.h"
#include "brigade/summary/graph_def.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/graph/operation_recorder.h"
#include "brigade/train/session/training_state.h"
#include "brigade/variables/variable.h"

namespace brigade::train {

/// The graph of a model, for TensorBoard.
struct ModelGraph {
  /// Variables, then each replica's operations in the order of its forward pass.
  std::vector<summary::GraphNode> nodes;
  /// The names of the operations, by replica and `Operation::sequence`.
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> names;
};

/// The graph of the model, from the record of a step with its backward pass. It contains:
///
/// - variables under their layers ("conv1/weight"), with shape, dtype and device.
///   If replicas have their own memory, theirs are "conv1/weight/replica_1" and so on;
///   copies of variables on a controller are "conv1/weight/copy_0".
/// - the operations from the first that reads a variable to the loss, as in the autograd graph,
///   each with its inputs, its device and the shape of its result. Operations that read variables
///   of a layer belong to the layer ("conv1/Convolution"), others to the root. Operations of
///   replica 0 have plain names, those of other replicas are in "replica_1" and so on.
/// - "inputs": the input of operations that combine variables of a layer with tensors that depend
///   on no variable.
///
/// Without a backward pass it contains only variables.
ModelGraph model_graph(const distribute::Strategy& strategy,
                       std::span<const variables::Variable> variables,
                       const OperationRecord& record);

/// The time that each node of the graph took in a step, forward and backward together, with its
/// start time. `graph` must be the graph of this record.
std::vector<summary::NodeTiming> node_timings(const ModelGraph& graph,
                                              const OperationRecord& record);

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

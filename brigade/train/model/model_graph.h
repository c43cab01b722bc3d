#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "brigade/distribute/strategy.h"
#include "brigade/summary/graph_def.h"
#include "brigade/summary/run_metadata.h"
#include "brigade/train/graph/operation_recorder.h"
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
/// - variables under their layers ("conv1/weight"), with shape, dtype and the device they lie on.
///   Where replicas have memory of their own, theirs are "conv1/weight/replica_1" and so on;
///   copies of what lies on a controller are "conv1/weight/copy_0".
/// - the operations from the first that reads a variable to the loss, as libtorch differentiates
///   them, each with what it reads, its device and the shape of its result. Those that read a
///   layer's variables lie in the layer ("conv1/Convolution"), others at the root. Replica 0's have
///   plain names, the others' lie in "replica_1" and so on.
/// - "inputs", from which operations read that combine a layer's variables with what depends on
///   none.
///
/// Without a backward pass it contains only variables.
ModelGraph model_graph(const distribute::Strategy& strategy,
                       std::span<const variables::Variable> variables,
                       const OperationRecord& record);

/// The time that each node of the graph took in a step, forward and backward together, with its
/// start time. `graph` must be the graph of this record.
std::vector<summary::NodeTiming> node_timings(const ModelGraph& graph,
                                              const OperationRecord& record);

}  // namespace brigade::train

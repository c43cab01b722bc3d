#pragma once

#include <map>
#include <string>
#include <string_view>

namespace brigade::train {

/// Names of nodes in the graph for TensorBoard, which groups nodes by "/".

/// "conv1.weight" as "conv1/weight".
std::string graph_path(std::string_view variable);

/// The layer of a variable, given its path: "conv1" for "conv1/weight" and for
/// "conv1/weights/part_0" of a partitioned variable; empty for a variable at the root.
std::string layer_of(std::string_view path);

/// The kind of operation of a node of the autograd graph: "Addmm" for "AddmmBackward0",
/// "ConvPoolRelu" for a custom function, "torch::autograd::CppNode<example::ConvPoolRelu>".
std::string operation_kind(std::string_view node);

/// Makes names unique.
///
/// Thread-safety: one thread.
class UniqueNames {
 public:
  /// Returns `name`, with the suffix "_1", "_2", ... if it is already in use.
  std::string unique(const std::string& name);

 private:
  std::map<std::string, int> used_;
};

}  // namespace brigade::train

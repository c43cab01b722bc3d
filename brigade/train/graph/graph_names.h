#pragma once

#include <map>
#include <string>
#include <string_view>

namespace brigade::train {

/// How the parts of a model are called in the graph that TensorBoard draws, which groups by "/".

/// "conv1.weight" as "conv1/weight".
std::string graph_path(std::string_view variable);

/// The layer of a variable, given its path: "conv1" of "conv1/weight" and of a partitioned
/// variable's "conv1/weights/part_0"; empty for one at the root.
std::string layer_of(std::string_view path);

/// What a node of the autograd graph computes: "Addmm" of "AddmmBackward0", "ConvPoolRelu" of a
/// function of the program's own, "torch::autograd::CppNode<example::ConvPoolRelu>".
std::string operation_kind(std::string_view node);

/// Gives out names, each once.
///
/// Thread-safety: one thread.
class UniqueNames {
 public:
  /// `name`, or if that is given out, with "_1", "_2", ... behind it.
  std::string unique(const std::string& name);

 private:
  std::map<std::string, int> used_;
};

}  // namespace brigade::train

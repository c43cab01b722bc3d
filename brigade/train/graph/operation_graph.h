#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/summary/graph_def.h"

namespace torch::autograd {
struct Node;
}  // namespace torch::autograd

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

/// An input of an operation: a leaf tensor that requires grad, the result of another operation, or,
/// with neither, an unknown tensor: libtorch does not record inputs without gradients.
struct OperationInput {
  /// The at::TensorImpl of the leaf; null if the input is not a leaf.
  const void* leaf = nullptr;
  std::int64_t leaf_elements = 0;
  /// The index of the other operation in the list.
  std::optional<std::size_t> operation = std::nullopt;
  std::uint32_t output = 0;  ///< the index of the operation's result
};

/// An operation of a forward pass.
struct OperationNode {
  std::string kind;  ///< "Addmm"
  std::int64_t sequence = -1;
  c10::Device device = c10::Device(c10::kCPU);
  std::vector<summary::Shape> output_shapes;
  std::vector<OperationInput> inputs;
};

/// The operations on which `root`, a node of the autograd graph, depends, in topological order:
/// each operation comes after its inputs.
std::vector<OperationNode> operations_before(torch::autograd::Node& root);

/// A component of a variable, which operations read.
struct GraphLeaf {
  std::string node;   ///< the name of its node in the graph
  std::string layer;  ///< empty at the root
};
using GraphLeaves = std::map<const void*, GraphLeaf>;  // by at::TensorImpl

/// Assigns the operations of a forward pass to layers.
///
/// Thread-safety: one thread.
class OperationScopes {
 public:
  struct Found {
    std::string layer;  ///< empty: none
    /// Whether it combines variables with tensors that depend on no variable: the model's inputs.
    bool reads_inputs = false;
  };

  /// `leaves` must outlive this object.
  explicit OperationScopes(const GraphLeaves& leaves) : leaves_(leaves) {}

  /// Call it for each operation of `operations_before`, in order.
  Found find(const OperationNode& operation);

 private:
  /// The known properties of the result of an operation.
  struct Result {
    std::string layer;
    bool is_of_weights = false;  // computed from variables and constants alone
    bool carries_them = false;   // and contains them in another form: transposed, concatenated
    std::map<const void*, std::int64_t> weights;  // which variables, with their numbers of elements
  };

  const GraphLeaves& leaves_;
  std::vector<Result> results_;  // [operation]
};

}  // namespace brigade::train

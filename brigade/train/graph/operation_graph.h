#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/summary/graph_def.h"

namespace torch::autograd {
struct Node;
}

namespace brigade::train {

/// An input of an operation: a leaf tensor that requires grad, the result of another operation, or,
/// with neither, an unknown tensor: libtorch does not record inputs without gradients.
struct OperationInput {
  /// The at::TensorImpl of the leaf; null if the input is not a leaf.
  const void* leaf = nullptr;
  std::int64_t leaf_elements = 0;
  /// The index of the other operation in the list.
  std::optional<std::size_t> operation = std::nullopt;
  std::uint32_t output = 0;  ///< the index of the operation's result

  bool is_unknown() const { return leaf == nullptr && !operation; }
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

}  // namespace brigade::train

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

/// What an operation reads: a tensor that gradients are wanted of, another operation's result, or,
/// with neither, something of which libtorch keeps no trace because no gradient goes there.
struct OperationInput {
  /// The leaf's at::TensorImpl; null if it is none.
  const void* leaf = nullptr;
  std::int64_t leaf_elements = 0;
  /// Where the other operation stands in the list.
  std::optional<std::size_t> operation = std::nullopt;
  std::uint32_t output = 0;  ///< which of its results

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

/// The operations whose results `root`, a node of the autograd graph, differentiates, each behind
/// those that it reads.
std::vector<OperationNode> operations_before(torch::autograd::Node& root);

}  // namespace brigade::train

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "brigade/train/graph/operation_graph.h"

namespace brigade::train {

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

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "brigade/train/graph/operation_graph.h"

namespace brigade::train {

/// A variable's component, as operations read it.
struct GraphLeaf {
  std::string node;   ///< its name in the graph
  std::string layer;  ///< empty at the root
};
using GraphLeaves = std::map<const void*, GraphLeaf>;  // by at::TensorImpl

/// Finds out to which layers the operations of a pass belong.
///
/// Thread-safety: one thread.
class OperationScopes {
 public:
  struct Found {
    std::string layer;  ///< empty: none
    /// Whether what it combines variables with depends on no variable: the model's inputs.
    bool reads_inputs = false;
  };

  /// `leaves` must outlive this.
  explicit OperationScopes(const GraphLeaves& leaves) : leaves_(leaves) {}

  /// For each operation of `operations_before`, in its order.
  Found find(const OperationNode& operation);

 private:
  /// What is known of an operation's result.
  struct Result {
    std::string layer;
    bool is_of_weights = false;  // computed from variables and constants alone
    bool carries_them = false;   // and is them in another form: transposed, put together
    std::map<const void*, std::int64_t> weights;  // which, with their elements
  };

  const GraphLeaves& leaves_;
  std::vector<Result> results_;  // [operation]
};

}  // namespace brigade::train

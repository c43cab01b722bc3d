#pragma once

#include <optional>
#include <string_view>

#include "brigade/cluster/cluster_spec.h"

namespace brigade::cluster {

/// A cluster, and the task of this process, if it is given.
///
/// Thread-safety: a value.
struct DescribedCluster {
  ClusterSpec cluster = {};
  std::optional<Task> task = std::nullopt;
};

/// Reads the JSON that `TF_CONFIG` and cluster files hold:
///
///   {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}, "task": {"type": "worker",
///    "index": 0}}
///
/// A job's tasks are a list, or an object from indices to addresses, {"0": "b:1", "2": "c:1"},
/// which may leave some out. `cluster` and `task` may be missing; `rpc_layer` may only be "grpc";
/// other keys are ignored unless they look like one of these misspelt. Throws kInvalidArgument,
/// beginning with `source`: for bad JSON with its line and column, for a wrong type with its path,
/// for a wrong cluster as `ClusterSpec` does. Thread-safety: a pure function.
DescribedCluster parse_cluster_json(std::string_view text, std::string_view source);

}  // namespace brigade::cluster

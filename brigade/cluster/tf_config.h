#pragma once

#include <optional>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/environment_variables.h"

namespace brigade::cluster {

/// The cluster that the variable `TF_CONFIG` describes (`parse_cluster_json` says its form);
/// nothing if it is not set or has no cluster, which means one worker, as in TensorFlow.
/// Throws kInvalidArgument, as `parse_cluster_json` and `assign_rank` do. TensorFlow:
/// tf.distribute.cluster_resolver.TFConfigClusterResolver.
std::optional<ClusterConfig> resolve_tf_config(const Environment& environment);

}  // namespace brigade::cluster

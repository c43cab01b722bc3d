#pragma once

#include <string>
#include <string_view>

#include "brigade/base/strings.h"
#include "brigade/distribute/input/workers.h"
#include "brigade/io/state_tree.h"

namespace brigade::train {

/// How the tensors of a training that are no variables begin in a checkpoint. Optimizers' slots
/// begin with the optimizer's name.
inline constexpr std::string_view kCheckpointableTensors = "part";
inline constexpr std::string_view kReplicaTensors = "replica";

/// "part/averages/ema/<name>"; `checkpointable` is the part's whole name.
inline std::string checkpointable_tensor_prefix(std::string_view checkpointable) {
  return base::str_cat(kCheckpointableTensors, "/", checkpointable, "/");
}
inline std::string checkpointable_tensor_name(std::string_view checkpointable, std::string_view name) {
  return checkpointable_tensor_prefix(checkpointable).append(name);
}
/// What replica `replica` keeps for itself of a variable: "replica/1/bn.running_mean".
inline std::string replica_tensor_name(int replica, std::string_view variable) {
  return base::str_cat(kReplicaTensors, "/", replica, "/", variable);
}

/// How many replicas each worker has, as a checkpoint keeps it.
io::StateTree layout_of(const distribute::Workers& workers);

}  // namespace brigade::train

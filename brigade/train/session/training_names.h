#pragma once

#include <string>
#include <string_view>

#include "brigade/base/strings.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/io/state_tree.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// An optimizer of a training state; its slots are saved under the name.
struct TrainingState::NamedOptimizer {
  std::string name;
  distribute::Optimizer optimizer;
  optim::SchedulePtr schedule;
};

/// Prefixes of the names in a checkpoint of tensors that are not variables. The names of optimizer
/// slots start with the optimizer's name.
inline constexpr std::string_view kCheckpointableTensors = "part";
inline constexpr std::string_view kReplicaTensors = "replica";

/// "part/averages/ema/", where `checkpointable` is "averages/ema".
inline std::string checkpointable_tensor_prefix(std::string_view checkpointable) {
  return base::str_cat(kCheckpointableTensors, "/", checkpointable, "/");
}
/// The value of a variable in one replica: "replica/1/bn.running_mean".
inline std::string replica_tensor_name(int replica, std::string_view variable) {
  return base::str_cat(kReplicaTensors, "/", replica, "/", variable);
}

/// The number of replicas of each worker, as it is saved in a checkpoint.
io::StateTree layout_of(const distribute::WorkerGroup& workers);

}  // namespace brigade::train

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/state_json.h"
#include "brigade/io/state_tree.h"
#include "brigade/variables/variable.h"

namespace brigade::checkpoint {

/// What one checkpoint contains.
struct Contents {
  /// Saved by name, with the values that they have outside of replicas: mirrored variables once,
  /// on-read variables as their aggregate. All partitions of a variable are saved as one tensor,
  /// under its name.
  std::vector<variables::Variable> variables;
  /// Tensors that are not variables: optimizer slots, moving averages. They have a separate name
  /// space.
  std::vector<NamedTensor> tensors;
  /// All other state: iterators, schedules, random streams, counters.
  io::StateTree state;
  /// Metrics of this step: `SaverOptions::best_of` looks here.
  std::map<std::string, double> metrics;
  /// For users and tools, such as the strategy, the devices, the model's flags.
  std::map<std::string, std::string> metadata;
};

/// `Contents` on the CPU, contiguous; in pinned memory where they come from a GPU.
struct Snapshot {
  std::int64_t step = 0;
  std::vector<NamedTensor> variables, tensors, arrays;  ///< One for each Section.
  std::string state;                                    ///< JSON
  std::map<std::string, double> metrics;
  std::map<std::string, std::string> metadata;
};

/// Where a snapshot's tensors are.
enum class SnapshotMemory {
  kOwn,     ///< In copies: training may continue.
  kShared,  ///< Shared with the variables where possible: these must not change while the snapshot
            ///< is used.
};

/// Throws kInvalidArgument, naming it, for what a checkpoint cannot hold (a negative step, a
/// duplicate name, a tensor that safetensors does not support, text that is not UTF-8), and
/// kFailedPrecondition inside a replica. The host waits once for all tensors that are on a GPU.
Snapshot take_snapshot(std::int64_t step, const Contents& contents, SnapshotMemory memory);

}  // namespace brigade::checkpoint

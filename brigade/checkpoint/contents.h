#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/state_json.h"
#include "brigade/io/state_tree.h"
#include "brigade/variables/variable.h"

namespace brigade::checkpoint {

/// What one checkpoint commits together.
struct Contents {
  /// Saved by name, as they read outside of replicas: mirrored ones once, on-read ones as their
  /// aggregate.
  std::vector<variables::Variable> variables;
  /// Tensors that are no variables: optimizer slots, moving averages. Names of their own.
  std::vector<NamedTensor> tensors;
  /// Everything else that goes on: iterators, schedules, random streams, counters.
  io::StateTree state;
  /// What was measured at this step: `SaverOptions::best_of` looks here.
  std::map<std::string, double> metrics;
  /// For people and tools, such as the strategy, the devices, the model's flags.
  std::map<std::string, std::string> metadata;
};

/// `Contents` on the CPU, contiguous.
struct Snapshot {
  std::int64_t step = 0;
  std::vector<NamedTensor> variables, tensors, arrays;  ///< One for each Section.
  std::string state;                                    ///< JSON
  std::map<std::string, double> metrics;
  std::map<std::string, std::string> metadata;
};

/// Where a snapshot's tensors lie.
enum class SnapshotMemory {
  kOwn,     ///< In copies: training may go on.
  kShared,  ///< Where they are, if they lie so already: nobody may change them while it is used.
};

/// Throws kInvalidArgument, naming the thing, for what no checkpoint can hold (a step below 0, a
/// name twice, a tensor that safetensors does not hold, text that is not UTF-8), and
/// kFailedPrecondition inside a replica.
Snapshot take_snapshot(std::int64_t step, const Contents& contents, SnapshotMemory memory);

}  // namespace brigade::checkpoint

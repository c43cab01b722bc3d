#pragma once

#include <cstdint>

#include "brigade/comm/communicator.h"
#include "brigade/data/core/pipeline_description.h"
#include "brigade/distribute/input/input_options.h"

namespace brigade::distribute {

/// Describes a worker's input: the facts that must be equal in all workers, so that no example is
/// lost or read twice and all workers make the same collective calls.
///
/// Thread-safety: a value.
struct InputDescription {
  BatchKind kind = BatchKind::kGlobal;
  InputReplication replication = InputReplication::kPerWorker;
  // For datasets of global batches:
  AutoShardPolicy policy = AutoShardPolicy::kData;  ///< never kAuto
  std::uint64_t files = 0;                          ///< a hash of the list of files
  data::PipelineDescription pipeline{};
  std::int64_t cardinality = 0;
  std::uint64_t epoch = 0;
};

/// Compares the workers' inputs: a collective of the workers. Throws kInvalidArgument in all of
/// them if one differs from worker 0 where that matters, naming the worker and both values.
///
/// Datasets from a function may differ between workers. With kData and kHint the same elements must
/// come in the same order; with kFile the same list of files must be read in the same way; with
/// kOff workers may have different datasets, but with the same number of batches.
void check_same_input(comm::Communicator& workers, const InputDescription& own);

}  // namespace brigade::distribute

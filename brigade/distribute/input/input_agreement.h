#pragma once

#include <cstdint>

#include "brigade/comm/communicator.h"
#include "brigade/data/core/pipeline_description.h"
#include "brigade/distribute/input/input_options.h"

namespace brigade::distribute {

/// What a worker's input is, as far as the others' has to be the same for examples to be neither
/// lost nor seen twice, and for all to come to the same collectives.
///
/// Thread-safety: a value.
struct InputDescription {
  BatchKind kind = BatchKind::kGlobal;
  InputReplication replication = InputReplication::kPerWorker;
  // Of datasets of global batches:
  AutoShardPolicy policy = AutoShardPolicy::kData;  ///< with kAuto decided
  std::uint64_t files = 0;                          ///< a hash of their list
  data::PipelineDescription pipeline{};
  std::int64_t cardinality = 0;
  std::uint64_t epoch = 0;
};

/// Compares it over the workers: a collective of theirs. Throws kInvalidArgument in all of them if
/// one has something else than worker 0 where that matters, naming the worker and what both have.
///
/// Datasets from a function may differ from worker to worker. By data and by hint the same elements
/// must come in the same order; by file the same list must be read in the same way; with kOff each
/// worker may have a dataset of its own, of as many batches.
void check_same_input(comm::Communicator& workers, const InputDescription& own);

}  // namespace brigade::distribute

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "brigade/comm/communicator.h"
#include "brigade/data/core/pipeline_description.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/io/state_tree.h"

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

/// Whether all workers iterate over the same data, or each over its own.
enum class InputSource { kSameForAll, kOwn };

/// Coordinates the workers' input: compares it, agrees on the end of data and on errors, and
/// gathers the workers' positions for a checkpoint. The batches themselves are not its concern.
///
/// Thread-safety: one thread at a time.
class InputCoordinator {
 public:
  InputCoordinator(WorkerLayout layout, InputSource source);

  /// Whether there are other workers whose input has not been compared with this worker's yet.
  bool must_compare() const { return !is_compared_ && layout_.workers != nullptr; }
  /// Compares the workers' inputs, a collective of the workers. Throws as `check_same_input`.
  void compare(const InputDescription& own);

  /// Whether there are several workers with their own data. All calls below are then collectives.
  bool has_own_data() const;

  struct Agreement {
    bool any_has_data = false;
    std::int64_t examples = 0;  ///< of all workers
  };
  /// Agrees on the next step: whether any worker has data, and the number of examples. Throws
  /// kAborted if a worker could not read its data, naming the worker and the reason.
  Agreement agree(std::span<const std::int64_t> own_counts) const;
  /// Reports to the others that this worker cannot read its data of the next step, with the reason.
  /// They throw it, in `agree` or where they wait for this worker's gradients.
  void fail(const std::string& reason) const;

  /// The state of the workers' iterators; `position` is this worker's. Contains every worker's
  /// position if workers have their own data.
  io::StateTree save(const io::StateTree& position) const;
  /// This worker's position in `state`. Throws kInvalidArgument if the state was saved by another
  /// number of workers with their own data, or with another InputSource.
  const io::StateTree& restore(const io::StateTree& state) const;

 private:
  Agreement exchange(std::span<const std::int64_t> own_counts, std::string_view failure) const;

  WorkerLayout layout_;
  InputSource source_;
  bool is_compared_ = false;
};

}  // namespace brigade::distribute

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/comm/communicator.h"
#include "brigade/comm/piggyback.h"
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

/// What one worker has for a step.
///
/// Thread-safety: a value.
struct WorkerStep {
  enum class State {
    kHasBatch,
    kHasEnded,  ///< its data has
    kFailed,    ///< its data cannot be read
  };
  State state = State::kHasEnded;
  std::int64_t examples = 0;  ///< with kHasBatch; 0 if the batch is empty
};

/// Coordinates the workers' input: compares it, agrees on the end of data and on errors, and
/// gathers the workers' positions for a checkpoint. The batches themselves are not its concern.
///
/// The agreement on a step costs a call of its own only if it was not made in advance. With each
/// call that the workers make anyway in the step before, such as that for its gradients, they also
/// send what they have for the next step, if they know (`comm::PiggybackNumber`). If all knew in
/// one of these calls, the next `agree` finds the answer; otherwise all make the call there. So no
/// worker waits for another's input before it must.
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
  /// Returns what this worker has for the step after the one that was agreed on last; nothing if
  /// that is not known yet. From then on it does not change. Must not wait nor throw.
  using LookAhead = std::function<std::optional<WorkerStep>()>;
  /// Agrees on the next step: whether any worker has data, and the number of examples. Throws
  /// kAborted if a worker could not read its data, naming the worker and the reason. `look_ahead`
  /// is called in the workers' calls until the next call of a function of this class that is not
  /// const.
  Agreement agree(const WorkerStep& own, LookAhead look_ahead);
  /// Reports to the others that this worker cannot read its data of the next step, with the reason.
  /// They throw it, in `agree` or where they wait for this worker's gradients.
  void fail(const std::string& reason);
  /// Forgets what was agreed in advance, because all workers move to another position.
  void forget_next() { next_ = nullptr; }

  /// The state of the workers' iterators; `position` is this worker's. Contains every worker's
  /// position if workers have their own data.
  io::StateTree save(const io::StateTree& position) const;
  /// This worker's position in `state`. Throws kInvalidArgument if the state was saved by another
  /// number of workers with their own data, or with another InputSource.
  const io::StateTree& restore(const io::StateTree& state) const;

 private:
  /// What all workers together have for a step.
  struct AllWorkers {
    std::int64_t with_batch = 0;
    std::int64_t failed = 0;
    std::int64_t examples = 0;

    void add(const WorkerStep& step);
  };
  /// What was agreed in advance; afterwards nothing is.
  std::optional<AllWorkers> take_next();
  AllWorkers exchange(const WorkerStep& own) const;
  [[noreturn]] void throw_failures(const std::string& own) const;

  WorkerLayout layout_;
  InputSource source_;
  bool is_compared_ = false;
  std::shared_ptr<comm::PiggybackNumber> next_;  // of the step after the one agreed on last
};

}  // namespace brigade::distribute

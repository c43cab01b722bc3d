#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "brigade/comm/communicator.h"
#include "brigade/comm/cross_device_ops.h"
#include "brigade/comm/local/local_group.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/pipeline/pipeline_workers.h"
#include "brigade/distribute/update_staleness.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/optim/moving_average.h"
#include "brigade/optim/optimizer_state.h"
#include "brigade/variables/row_source.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {

class StageVariables;

/// Whether gradients are one replica's own, or already the sum over all replicas.
enum class GradientState { kLocal, kAggregated };

/// How a step ended in this process.
enum class StepOutcome { kDone, kFailed };

/// Is notified of each gradient as soon as backward has completed it, so that its reduction
/// overlaps with the rest of backward. A `GradientSynchronizer` that supports this returns one from
/// `GradientSynchronizer::ready_listener`; `Optimizer::minimize` uses it if gradients are applied
/// unchanged.
///
/// In each step a replica either calls `begin`, then `ready` for any of its gradients, and then
/// applies all of them or calls `cancel`; or it makes none of these calls and only applies.
///
/// Thread-safety: each replica from its own thread.
class GradientReadyListener {
 public:
  virtual ~GradientReadyListener() = default;

  /// Whether the next step uses the notifications. If not, do not call the functions below.
  virtual bool is_enabled() const = 0;
  /// Replica `replica` begins a backward pass, whose gradients it will apply. The pass must not
  /// contain collectives. Throws kFailedPrecondition if an earlier pass of this step has failed.
  virtual void begin(int replica) = 0;
  /// The gradient of variable `variable` (an index into `OptimizerState::variables`) is complete.
  /// It is contiguous, in the memory order of the variable, and must not change until it is
  /// applied.
  virtual void ready(int replica, std::size_t variable, const at::Tensor& gradient) = 0;
  /// The current pass has failed: its gradients will not be applied.
  virtual void cancel(int replica) noexcept = 0;
};

/// How gradients are reduced and which thread updates the parameters: the part of a strategy that
/// turns the replicas' gradients into new parameters. On the host gradients are added by the
/// comm::ReductionTree of all replicas of all processes. An undefined gradient counts as zero if
/// another replica has one. If no replica has one, the variable, its slots and its step do not
/// change. `make_replica_synchronizer` is the default of strategies, and the simplest example.
///
/// Thread-safety: collective; every replica calls from its own thread, in the same order.
class GradientSynchronizer {
 public:
  virtual ~GradientSynchronizer() = default;

  /// Updates the parameters with the sum of the replicas' gradients (kLocal), or with `gradients`
  /// themselves, which must then be equal in every replica (kAggregated). Gradients are contiguous,
  /// each in the memory order of its variable (`variables::in_memory_order`), or of rows
  /// (`takes_rows`). There is one for each of `OptimizerState::variables`, in their order.
  virtual void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) = 0;

  /// Returns the sums of all replicas' gradients, in every replica; in memory order as well.
  virtual std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) = 0;

  /// Whether a tensor of each replica, such as its loss, of this dtype and size can be added up
  /// with local gradients (`apply_with`, `aggregate_with`), because they go to other processes.
  /// Equal in all replicas.
  virtual bool can_sum(at::ScalarType /*dtype*/, std::int64_t /*numel*/) const { return false; }
  /// As `apply` of local gradients. Returns the sum of all replicas' `value`, by the
  /// comm::ReductionTree of all, as a new tensor; shapes and dtypes are equal in all replicas.
  virtual at::Tensor apply_with(int replica, std::span<const at::Tensor> gradients,
                                const at::Tensor& value);
  /// As `aggregate`, and the same.
  virtual std::pair<std::vector<at::Tensor>, at::Tensor> aggregate_with(
      int replica, std::span<const at::Tensor> gradients, const at::Tensor& value);

  /// Whether `apply`, `apply_outside` and `aggregate` take gradients of some rows of a variable
  /// (`comm::has_rows`, coalesced). For others sparse gradients are made dense.
  virtual bool takes_rows() const { return false; }
  /// For variables whose true values are elsewhere: when it returns, replica `replica`'s components
  /// have the current values of these rows (see `variables::RowSource`). Called by the replica's
  /// thread, in a run; not a collective. Ignores tables that are not among its variables.
  virtual void fetch_rows(int /*replica*/, std::span<const variables::WantedRows> /*wanted*/) {}

  /// Whether `apply` may be captured with a step: if it only queues work for the replica's device.
  virtual bool can_be_captured() const { return false; }

  /// The processes whose gradients are reduced; null for a single process.
  virtual const WorkerGroup* workers() const { return nullptr; }
  /// Where updates are counted, which the other processes compare with theirs; null for a single
  /// process.
  virtual comm::StepProgress* progress() const {
    return workers() ? &workers()->communicator->progress() : nullptr;
  }

  /// Whether `own` is true in any process that trains other variables of the same replicas, for
  /// synchronizers in which such processes must agree. A collective of the replicas; all of this
  /// process pass the same value.
  virtual bool is_true_for_any(int /*replica*/, bool own) { return own; }

  /// The listener to notify of gradients during backward; null if this synchronizer does not use
  /// it.
  virtual GradientReadyListener* ready_listener() { return nullptr; }

  /// By how much the loss of a mean over this process's examples is weighted: less than 1 if
  /// others, with which it shares no collectives, add their gradients to the same update.
  virtual double loss_weight() const { return 1.0; }

  /// If the variables' authoritative values are elsewhere, updates them with `sums`, outside of
  /// replicas, on one thread, and returns true. False: the caller updates them
  /// (`apply_everywhere`).
  virtual bool apply_outside(std::span<const at::Tensor> /*sums*/) { return false; }

  /// For variables whose authoritative values are elsewhere (parameter servers). `fetch_state`
  /// copies values, slots and numbers of updates into the optimizer's state and variables;
  /// `store_state` is called when they were initialized or restored in this process, and copies
  /// them to the servers.
  /// In a worker that is not the chief, and in a job that is running already, it fetches instead.
  /// Every session calls it at its start. Both outside of runs.
  virtual void fetch_state() {}
  virtual void store_state() {}
  /// After `fetch_state`: the averages of variables whose true values are elsewhere. Outside of
  /// runs.
  virtual void fetch_averages(const optim::ExponentialMovingAverage& /*averages*/) {}
  /// Lets the other workers of the job begin, if this is the chief and its first run did not do so:
  /// what this worker has is stored, and from now on the job's state counts. Every session calls it
  /// when it is ready, for it may make no run. Does nothing in other workers. Outside of runs.
  virtual void start_job() {}
  /// The job's number of updates, if workers without collectives count together, as of this
  /// worker's latest `apply`, `begin_step`, `fetch_state` or `store_state`, which stores it as
  /// well. Replicas call it after `apply`, and all get the same number.
  virtual std::optional<std::int64_t> global_step() const { return std::nullopt; }
  /// Another worker has seen the job at this step: `global_step` is at least that from now on.
  /// Outside of runs.
  virtual void follow_global_step(std::int64_t /*step*/) {}
  /// How stale this worker's updates were since this was made; null if updates are never stale.
  /// Outside of runs.
  virtual const UpdateStaleness* staleness() const { return nullptr; }
  /// The number that the next `store_state` stores.
  virtual void set_global_step(std::int64_t /*step*/) {}
  /// The optimizer's learning rate was set, or restored: this is what it is now. Called also if it
  /// did not change. In a job that is running already it has no effect before the state was
  /// fetched. Outside of runs.
  virtual void set_learning_rate(double /*rate*/) {}

  /// Called before every run, before any replica runs. May wait. If it throws, no replica runs and
  /// `end_step` is not called: the step has not begun.
  virtual void begin_step() {}
  /// Called after every run, when all replicas have returned. Clears what a failed step has left.
  /// `replicas` is the replicas' own outcome. Returns kFailed also if only the gradients of the
  /// step were not applied.
  virtual StepOutcome end_step(StepOutcome replicas) { return replicas; }
};

/// For collectives of the replicas of one process that other threads than theirs make, at the same
/// time as their own collectives.
struct SideCommunicators {
  /// A group that is used by these alone.
  std::shared_ptr<comm::LocalGroup> group = nullptr;
  /// [replica]: the communicators over such a group; null: there are none.
  std::function<std::vector<std::unique_ptr<comm::Communicator>>(std::shared_ptr<comm::LocalGroup>)>
      make = nullptr;
};

/// What a strategy gives to the synchronizer of one of its optimizers.
struct SynchronizerContext {
  std::shared_ptr<optim::OptimizerState> state;
  /// The replicas of this process.
  std::shared_ptr<comm::LocalGroup> group;
  /// [replica of this process]: the communicators of all replicas of all processes. They outlive
  /// the synchronizer.
  std::vector<comm::Communicator*> communicators;
  /// The processes that train together; null: only this one.
  std::shared_ptr<const WorkerGroup> workers = nullptr;
  /// The optimizer's number among the strategy's, which identifies its collectives between
  /// processes.
  int optimizer = 0;
  /// The strategy's placement log; null: none.
  std::shared_ptr<device::Placer> placer = nullptr;
  /// The strategy's variables; null: not known. It outlives the synchronizer.
  const variables::VariableStore* store = nullptr;
  /// How many of this process's replicas notify the `ready_listener` in a step: those that compute
  /// one after another on a device notify it once, of their sums. 0: all.
  int notifying_replicas = 0;
  /// [variable]: those that the replicas train, in the processes of `workers`; empty: all.
  std::vector<bool> is_trained = {};
  /// For reductions during backward, in a job of one process.
  SideCommunicators side_communicators = {};
};

/// Makes the synchronizer of an optimizer: a part of a strategy (`StrategyParts::synchronizer`).
using SynchronizerFactory =
    std::function<std::unique_ptr<GradientSynchronizer>(const SynchronizerContext&)>;

/// Gradients are all-reduced, and each replica updates its own parameters. Used by strategies of
/// one replica, where nothing is sent, and by several processes on GPUs.
std::unique_ptr<GradientSynchronizer> make_replica_synchronizer(const SynchronizerContext& context);

struct OverlapOptions {
  /// Gradients are reduced in buckets of at least this size, while backward computes the next ones.
  /// Larger ones cost fewer calls, and the last one overlaps with nothing.
  std::int64_t bytes_per_bucket = std::int64_t{25} << 20;
};
/// For replicas on GPUs, each with its own stream: gradients are copied to flat buckets as soon as
/// backward has completed them, and the buckets are reduced on side streams, in one order, while
/// backward continues. Then each replica updates its parameters; replicas that share the
/// parameters' memory (logical GPUs of one card) make one update, with the same bits. Used by
/// Mirrored on GPUs. For one replica, and where `SynchronizerContext::side_communicators` has none,
/// it is `make_replica_synchronizer`.
SynchronizerFactory overlapped_synchronizer(const OverlapOptions& options = {});

/// For replicas of one process that share the parameters' memory: between two barriers each replica
/// adds the gradients of its shard of the elements, by the tree, and updates that shard. Nothing
/// is copied, and each of R replicas does 1/R of the update. Used by Mirrored on CPU. Throws
/// kInvalidArgument if there are several workers, whose gradients it would not add.
std::unique_ptr<GradientSynchronizer> make_sharded_synchronizer(const SynchronizerContext& context);

/// For the processes of a cluster whose replicas share the parameters' memory: the gradients of
/// this process's replicas are added into flat buckets (`GradientBuckets`), which are reduced over
/// the processes, and every process updates its own variables with the sums. Used by
/// MultiWorkerMirrored on CPU.
std::unique_ptr<GradientSynchronizer> make_worker_synchronizer(const SynchronizerContext& context);

/// Which threads add gradients and update variables on a controller.
enum class ControllerWork {
  kSharded,      ///< all replicas' threads, 1/R of the elements each: if the controller is a CPU
  kFirstReplica  ///< replica 0's thread: if it is a GPU, which gets its work from one stream
};

struct StageSynchronizerOptions {
  PipelineWorkers workers;  ///< with `PipelineWorkers::pipeline`
  /// Whether every worker computes all stages in this step, as long as they are not cut. Unset: in
  /// no step.
  std::function<bool()> has_all_stages = {};
  /// Whose gradients this worker's micro-batches have left to others. Not null.
  std::shared_ptr<StageVariables> variables = {};
};

/// For the processes of pipelines. Those of one pipeline compute the stages of the same replicas:
/// each process adds the gradients of its stages' variables, over the processes of the other
/// pipelines as well, and updates these, when all have theirs. The others' values, slots and
/// numbers of updates are fetched from their processes (`fetch_state`), as are statistics: from the
/// process that changed them. Variables that several processes of a pipeline use are trained by one
/// of them (`StageVariables`), which sends the others their values after each update; those that
/// several train are refused with kUnimplemented. `aggregate` sends the sums of all variables to
/// all processes.
SynchronizerFactory stage_synchronizer(const StageSynchronizerOptions& options);

/// For variables on a controller: all replicas' gradients are copied to its device, added there by
/// the tree (or with `ops`, if given), and applied to the variables; then replicas that read a
/// copy refresh it. Unset `work` follows from the controller's device. Used by central storage and
/// towers.
SynchronizerFactory controller_synchronizer(std::shared_ptr<const comm::CrossDeviceOps> ops,
                                            std::optional<ControllerWork> work = std::nullopt);

/// Adds the replicas' gradients with `ops`, in the cross-replica context on replica 0's thread, and
/// updates with what `inner` makes. Returns `inner` itself if `ops` is null; for one replica, which
/// has nothing to add, `inner` is used alone. For strategies whose options name `CrossDeviceOps`.
SynchronizerFactory with_cross_device_ops(std::shared_ptr<const comm::CrossDeviceOps> ops,
                                          SynchronizerFactory inner);

/// Updates every replica's parameters with `sums`, in the cross-replica context, on one thread.
/// `sums` are as for `GradientSynchronizer::apply`; variables without a sum do not change.
void apply_everywhere(optim::OptimizerState& state, std::span<const at::Tensor> sums);

/// For synchronizers: elements from `begin` up to `end`.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// Shard `shard` of `num_shards` of a range of elements, on which several replicas work at the same
/// time. Shards are consecutive and of nearly equal size. Each begins a multiple of 64 elements
/// (whole cache lines) after the range's begin, so that no two replicas write to the same line.
constexpr ElementRange element_shard(ElementRange range, int shard, int num_shards) {
  constexpr std::int64_t kAlignment = 64;
  const auto begin_of = [&](int index) {
    const std::int64_t offset = (range.end - range.begin) * index / num_shards;
    return index == num_shards ? range.end : range.begin + offset / kAlignment * kAlignment;
  };
  return {begin_of(shard), begin_of(shard + 1)};
}

/// For synchronizers: a gradient of zeros, in memory order.
at::Tensor zeros_for(const variables::Variable& variable, int replica);

/// For synchronizers: which of these gradients exist.
std::vector<bool> present(std::span<const at::Tensor> gradients);
/// Sets `known[i]` for each gradient that exists.
void merge_present(std::vector<bool>& known, std::span<const at::Tensor> gradients);
/// Which gradients exist on at least one rank. Collective.
std::vector<bool> present_anywhere(comm::Communicator& communicator,
                                   std::span<const at::Tensor> gradients);

/// For synchronizers: calls `Variable::mark_updated` for the variables that are known and not
/// frozen, after replica `replica`'s part of an update.
void mark_updated(const optim::OptimizerState& state, const std::vector<bool>& known, int replica);

}  // namespace brigade::distribute

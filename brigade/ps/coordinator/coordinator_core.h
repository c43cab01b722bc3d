#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/cluster/task.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/coordination/function_queue.h"
#include "brigade/coordination/task_registry.h"
#include "brigade/ps/coordinator/coordinator_service.h"
#include "brigade/ps/coordinator/remote_value.h"
#include "brigade/ps/server/server_core.h"

namespace brigade::ps {

/// What a coordinator schedules: `FunctionWork` without what the core decides.
struct ScheduledFunction {
  std::string function;
  FunctionData arguments = {};  ///< which nobody changes from now on
  std::vector<PerWorkerCreation> per_worker = {};
  /// Values of this core that become arguments (`add_input`). The function waits for them.
  std::vector<RemoteInput> inputs = {};
};

struct CoordinatorCoreOptions {
  /// The tasks that run functions.
  std::vector<cluster::Task> workers;
  /// A worker that is silent for this long is lost.
  std::chrono::milliseconds lease = std::chrono::seconds(8);
  coordination::FunctionQueueOptions queue = {};
  /// Called with each change of a membership, in any thread. May be empty; must not call the core.
  std::function<void(TaskChange, const cluster::Task&, std::int64_t incarnation)> on_change = {};
  /// Called with a function whose inputs have become arguments; throws what it then fails with. May
  /// be empty; must not call the core.
  std::function<void(const ScheduledFunction&)> check_complete = {};
};

/// A coordinator without its network: who may call, which worker runs what, and the values of
/// functions.
///
/// Thread-safety: all functions from any thread. It starts no threads. `schedule`, `join`,
/// `wait_any` and `take` block their threads, by the machine's clock; `clock` decides about leases.
class CoordinatorCore final : public CoordinatorService {
 public:
  /// `clock` must outlive this. Throws as TaskRegistry and FunctionQueue.
  CoordinatorCore(CoordinatorCoreOptions options, const base::Clock& clock);
  /// As `cancel`. No thread may be in a call.
  ~CoordinatorCore() override;

  /// Adds a function; waits while the queue is full. Throws the error of a function that has
  /// failed, and takes it; kDeadlineExceeded at `deadline`, kCancelled after `cancel` and `end`;
  /// kInvalidArgument for inputs that have no unique names, or are values of another core;
  /// what has aborted an input.
  RemoteValue schedule(ScheduledFunction function, Time deadline);
  /// Waits until no function waits or runs. Throws as `schedule`.
  void join_functions(Time deadline);
  /// Whether no function waits or runs.
  bool is_idle() const;
  /// The position of a value that is no longer pending; the first of several. Waits for one of the
  /// functions of this core; unset at `deadline`, and if `values` is empty.
  std::optional<std::size_t> wait_any(std::span<const RemoteValue> values, Time deadline);

  /// A program may divide its functions into phases, which coordinator and workers number alike,
  /// from 1: a worker that has registered the functions of one phase takes no others, and learns
  /// how an earlier one has ended, also if it was not there. Functions that are scheduled from now
  /// on belong to the new phase, whose number is returned. An earlier one that has not ended has
  /// failed. Throws kCancelled after `cancel` and `end`.
  std::int64_t begin_phase();
  /// Ends the phase that was begun last, for its workers with this outcome (without arrays), and
  /// cancels its functions. Throws kFailedPrecondition if none is open.
  void end_phase(io::StateTree outcome);
  /// Cancels the functions that wait and run, and takes the error of one that has failed.
  void drop_functions(const std::string& reason);
  /// An id for a value of each worker.
  std::int64_t new_value_id();

  WorkerGrant join(const WorkerJoin& request, Time deadline) override;
  WorkerStatus renew(const std::string& token, std::int64_t running, Time deadline) override;
  TakeReply take(const std::string& token, const TakeRequest& request, Time deadline) override;
  void finish(const std::string& token, const FunctionReport& report, Time deadline) override;
  void leave(const std::string& token, Time deadline) override;

  /// Ends leases that have run out. Call it when `next_expiry` is reached, and at least every
  /// second.
  void tick();
  std::optional<Time> next_expiry() const;
  /// How many workers hold leases.
  int num_present() const;
  /// Whether a coordinator that has ended should wait: a worker holds a lease; one was lost in the
  /// last three terms, and may join again; or, before `latecomers`, one has never joined.
  bool expects_workers(Time latecomers) const;

  /// Cancels all functions, and refuses later ones with kCancelled. `reason` completes "because".
  void cancel(const std::string& reason);
  /// As `cancel`, and notifies the workers that the coordinator has ended.
  void end();
  /// Wakes all calls of workers that wait, which then throw kUnavailable; so do later ones.
  void close();

 private:
  using FunctionQueue = coordination::FunctionQueue;
  using Incarnation = coordination::Incarnation;

  /// A function that waits, for its inputs or a worker, or runs.
  struct Open {
    ScheduledFunction function;
    RemoteResult result;
  };
  struct Change {
    TaskChange kind;
    Incarnation holder;
  };

  void check_not_cancelled() const BRIGADE_REQUIRES(mutex_);
  void check_inputs(const ScheduledFunction& function) const;
  bool has_room() const BRIGADE_REQUIRES(mutex_);
  bool has_none() const BRIGADE_REQUIRES(mutex_);
  void release_ready() BRIGADE_REQUIRES(mutex_);
  void fail_at_release(const Open& function, const std::exception_ptr& error)
      BRIGADE_REQUIRES(mutex_);
  void abort(const Open& function, const std::string& reason) const;
  void cancel_held(const std::string& reason) BRIGADE_REQUIRES(mutex_);
  void throw_error() BRIGADE_REQUIRES(mutex_);
  Incarnation authenticate(const std::string& token) BRIGADE_REQUIRES(mutex_);
  std::optional<Incarnation> holder_of(const std::string& task) const BRIGADE_REQUIRES(mutex_);
  void lose(const Incarnation& worker) BRIGADE_REQUIRES(mutex_);
  void fail(FunctionQueue::Id failed, const Error& error) BRIGADE_REQUIRES(mutex_);
  void cancel_functions(const std::vector<FunctionQueue::Id>& functions, const std::string& reason)
      BRIGADE_REQUIRES(mutex_);
  void cancel_all(const std::string& reason) BRIGADE_REQUIRES(mutex_);
  void drop_all(const std::string& reason) BRIGADE_REQUIRES(mutex_);
  bool has_open_phase() const BRIGADE_REQUIRES(mutex_);
  void report(const std::vector<Change>& changes) const;

  const CoordinatorCoreOptions options_;
  const base::Clock& clock_;
  const std::vector<std::string> names_;  // of the workers
  const std::string id_;                  // of this life of the coordinator

  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;  // any of what follows
  coordination::TaskRegistry registry_ BRIGADE_GUARDED_BY(mutex_);
  std::set<std::string> seen_ BRIGADE_GUARDED_BY(mutex_);           // tasks that have joined
  std::map<std::string, Time> lost_at_ BRIGADE_GUARDED_BY(mutex_);  // and have not come again
  FunctionQueue queue_ BRIGADE_GUARDED_BY(mutex_);
  std::map<FunctionQueue::Id, Open> open_ BRIGADE_GUARDED_BY(mutex_);
  std::list<Open> held_ BRIGADE_GUARDED_BY(mutex_);      // not in queue_: their inputs are pending
  std::exception_ptr error_ BRIGADE_GUARDED_BY(mutex_);  // the first, which was not thrown yet
  std::int64_t last_value_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::int64_t phase_ BRIGADE_GUARDED_BY(mutex_) = 0;  // the last that was begun
  std::map<std::int64_t, PhaseEnd> ended_phases_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<std::string> cancelled_ BRIGADE_GUARDED_BY(mutex_);  // why
  bool is_done_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_closed_ BRIGADE_GUARDED_BY(mutex_) = false;
};

}  // namespace brigade::ps

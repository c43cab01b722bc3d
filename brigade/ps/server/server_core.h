#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/cluster/task.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/coordination/task_registry.h"
#include "brigade/io/file_system.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server/open_store.h"
#include "brigade/ps/server/server_metrics.h"
#include "brigade/ps/server/step_gate.h"
#include "brigade/ps/server/task_change.h"
#include "brigade/ps/store/parameter_store.h"

namespace brigade::ps {

struct ServerCoreOptions {
  /// The tasks that train, in the order of their ranks (`ClusterSpec::training_tasks`). The first
  /// is the chief.
  std::vector<cluster::Task> tasks;
  /// Whether this is `ps:0`.
  bool is_coordinator = true;
  /// A task that is silent for this long is lost.
  std::chrono::milliseconds lease = std::chrono::seconds(8);
  ParameterStoreOptions store;
  /// A snapshot is written when the log has grown by this much since the last.
  std::uint64_t snapshot_after_bytes = std::uint64_t{256} << 20;
  /// Called with each change of a membership, in any thread. May be empty; must not call the
  /// server.
  std::function<void(TaskChange, const cluster::Task&, std::int64_t incarnation)> on_change = {};
};

/// A parameter server without its network: who may call, the order of steps, and the store.
///
/// A job's first server, its coordinator, gives incarnations: a task joins it first, with
/// incarnation 0, and the others with what it got there. It also decides the steps of synchronous
/// training, so it takes no decision from its callers that it has not made.
///
/// Thread-safety: all functions from any thread. It starts two threads: one writes snapshots, the
/// other one brings to the disk what is acknowledged later. `begin_step` blocks its thread, by
/// `clock`, and by the machine's clock until its deadline.
class ServerCore final : public ParameterService {
 public:
  /// Opens the store, as `ParameterStore`. `clock` decides about leases and must outlive this.
  ServerCore(std::shared_ptr<io::FileSystem> files, const ServerCoreOptions& options,
             const base::Clock& clock);
  /// With a store that is open: `ServerCoreOptions::store` and `snapshot_after_bytes` are not used.
  ServerCore(OpenStore store, ServerCoreOptions options, const base::Clock& clock);
  /// Its store, for another server. No call may be in progress.
  static OpenStore release(std::unique_ptr<ServerCore> core);

  Grant join(const JoinRequest& request, Time deadline) override;
  ServerStatus renew(const std::string& token, Time deadline) override;
  void leave(const std::string& token, Time deadline) override;
  ServerStatus create(const std::string& token, const CreateRequest& request,
                      Time deadline) override;
  void assign(const std::string& token, const std::vector<NamedState>& variables, std::int64_t step,
              Time deadline) override;
  void set_ready(const std::string& token, Time deadline) override;
  void set_learning_rate(const std::string& token, double rate, Time deadline) override;
  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request,
                         Time deadline) override;
  StoredStates states(const std::string& token, const std::vector<std::string>& names,
                      Time deadline) override;
  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time deadline) override;

  /// `ParameterStore::moment`, for a replica.
  StoreMoment moment(const std::function<void(std::int64_t covered)>& begin);

  /// Ends leases that have run out. Call it when `next_expiry` is reached, and at least every
  /// second.
  void tick();
  std::optional<Time> next_expiry() const;
  /// Whether the chief has left as finished, and has not joined again; after a restart, too.
  bool has_chief_finished() const;
  /// Whether the job is over: the chief has left as finished, nobody holds a lease, and nobody is
  /// expected (`coordination::TaskRegistry::is_finished`).
  bool is_finished() const;
  /// Why the server cannot continue: its disk has failed, or memory ran out in the middle of an
  /// update. Unset while it works. All calls then throw kUnavailable, since a server that is
  /// started again in its folder is whole.
  std::optional<std::string> failure() const;
  ServerStatus status() const;
  ServerCounters counters() const;
  ServerMetrics metrics() const;
  /// Wakes all blocked calls, which then throw kUnavailable; so do later ones.
  void close() override;

 private:
  static constexpr const char* kNotCreatedYet =
      "The server has no variables yet: the chief creates them first.";
  static constexpr const char* kNotReadyYet =
      "The server is not ready: the chief has not initialized or restored the variables yet.";

  using Incarnation = coordination::Incarnation;
  using StepDecision = coordination::StepDecision;
  using TaskRegistry = coordination::TaskRegistry;

  /// Who calls: an incarnation of a task that holds a lease.
  struct Caller {
    Incarnation holder;
    int rank = 0;
    bool is_chief() const { return rank == 0; }
  };
  struct Change {
    TaskChange kind;
    Incarnation holder;
  };

  /// Serves a call. One during which the store fails, and all after it, throw kUnavailable.
  template <class Function>
  auto serve(const Function& call) BRIGADE_EXCLUDES(mutex_) {
    try {
      return call();
    } catch (const std::exception& error) {
      throw_if_failed(error);
      throw;
    }
  }

  void restore_registry() BRIGADE_REQUIRES(mutex_);
  void throw_if_failed(const std::exception& error) BRIGADE_EXCLUDES(mutex_);
  void check_open() const BRIGADE_REQUIRES(mutex_);
  [[noreturn]] static void refuse_replaced(const Incarnation& holder);
  Caller authenticate(const std::string& token) BRIGADE_REQUIRES(mutex_);
  Caller caller(const std::string& token) BRIGADE_EXCLUDES(mutex_);
  /// Throws kPermissionDenied unless the chief calls. `what` it does: "creates variables".
  void check_chief(const std::string& token, const char* what) BRIGADE_EXCLUDES(mutex_);
  void check_held(const Caller& caller) const BRIGADE_REQUIRES(mutex_);
  std::optional<Incarnation> holder_of(const std::string& task) const BRIGADE_REQUIRES(mutex_);
  void check_contribution(const Caller& from, const BeginStepRequest& request) const
      BRIGADE_REQUIRES(mutex_);
  void report_earlier(const Caller& from, const BeginStepRequest& request) BRIGADE_REQUIRES(mutex_);
  std::set<int> finished() const BRIGADE_REQUIRES(mutex_);
  std::set<int> present() const BRIGADE_REQUIRES(mutex_);
  TaskRegistry::Joined admit_to_registry(const JoinRequest& request, const std::string& token,
                                         std::vector<Change>& changes) BRIGADE_REQUIRES(mutex_);
  void report(const std::vector<Change>& changes) const;
  void save_the_end() BRIGADE_EXCLUDES(mutex_);

  JobConfig job() const BRIGADE_EXCLUDES(mutex_);
  void check_exchange(const ExchangeRequest& request) const;
  void apply_known(const StepDecision& decision, Time deadline);
  ParameterStore::BegunPush take(const Caller& from, const Push& push, Time deadline);
  std::int64_t defer(const Caller& from, std::int64_t record) BRIGADE_EXCLUDES(mutex_);
  std::int64_t last_record_of(const Caller& from) const BRIGADE_EXCLUDES(mutex_);
  void read_values(const ExchangeRequest& request, ExchangeReply& reply) BRIGADE_EXCLUDES(mutex_);
  void count(coordination::PushVerdict verdict) BRIGADE_EXCLUDES(mutex_);
  void count_offer(const Caller& from, const coordination::StepDecider::Token& token)
      BRIGADE_EXCLUDES(mutex_);
  void count_decided(const StepDecision& decision) BRIGADE_REQUIRES(mutex_);

  StepGate& gate() BRIGADE_REQUIRES(mutex_);
  bool has_to_confirm() const BRIGADE_REQUIRES(mutex_);
  void confirm_decision(Time deadline) BRIGADE_EXCLUDES(mutex_);
  void end_confirming() BRIGADE_EXCLUDES(mutex_);

  const ServerCoreOptions options_;
  const base::Clock& clock_;
  const std::vector<std::string> names_;  // of the tasks, by rank
  OpenStore open_;
  ParameterStore& store_;  // has its own locks; mutex_ may be held meanwhile
  ServerLatencies& latencies_;
  SnapshotThread& snapshots_;
  LogSyncThread& log_syncs_;

  // Never held while the disk is written.
  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;  // the gate, the memberships or is_closed_
  TaskRegistry registry_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<JobConfig> job_ BRIGADE_GUARDED_BY(mutex_);  // unset before `create`
  std::optional<StepGate> gate_ BRIGADE_GUARDED_BY(mutex_);  // unset before the first step
  bool is_confirming_ BRIGADE_GUARDED_BY(mutex_) = false;    // a thread writes gate_'s decision
  bool is_closed_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::optional<std::string> failure_ BRIGADE_GUARDED_BY(mutex_);
  bool is_end_saved_ BRIGADE_GUARDED_BY(mutex_) = false;  // asked for a snapshot: the job is over
  ServerCounters counters_ BRIGADE_GUARDED_BY(mutex_);
  // By rank: the record of the last push that was answered before it was on the disk.
  std::map<int, std::int64_t> deferred_ BRIGADE_GUARDED_BY(mutex_);
  // kSync: gradients of steps that are not decided, to count those that are dropped.
  std::set<std::pair<std::int64_t, coordination::Contribution>> offered_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::ps

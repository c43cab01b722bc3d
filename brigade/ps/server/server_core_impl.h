#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/coordination/task_registry.h"
#include "brigade/ps/server/open_store.h"
#include "brigade/ps/server/server_core.h"
#include "brigade/ps/server/step_gate.h"

/// Shared by the files of ServerCore.
namespace brigade::ps {

class ServerCore::Impl {
 public:
  Impl(OpenStore store, ServerCoreOptions options, const base::Clock& clock);

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

  Grant join(const JoinRequest& request, Time deadline);
  ServerStatus renew(const std::string& token);
  void leave(const std::string& token, Time deadline);

  ServerStatus create(const std::string& token, const CreateRequest& request, Time deadline);
  void assign(const std::string& token, const std::vector<NamedState>& variables, std::int64_t step,
              Time deadline);
  void set_ready(const std::string& token, Time deadline);
  void set_learning_rate(const std::string& token, double rate, Time deadline);

  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request, Time deadline);
  StoredStates states(const std::string& token, const std::vector<std::string>& names);
  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time deadline);

  void tick();
  std::optional<Time> next_expiry() const;
  bool has_chief_finished() const;
  bool is_finished() const;
  std::optional<std::string> failure() const;
  ServerStatus status() const;
  ServerCounters counters() const;
  ServerMetrics metrics() const;
  void close();
  OpenStore release() { return std::move(open_); }
  ParameterStore& store() { return store_; }

  static constexpr const char* kNotCreatedYet =
      "The server has no variables yet: the chief creates them first.";
  static constexpr const char* kNotReadyYet =
      "The server is not ready: the chief has not initialized or restored the variables yet.";

 private:
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

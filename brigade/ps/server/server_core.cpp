#include "brigade/ps/server/server_core.h"

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/coordination/task_registry.h"
#include "brigade/optim/rule_config.h"
#include "brigade/ps/server/job_config.h"
#include "brigade/ps/server/step_gate.h"
#include "brigade/rpc/token.h"

namespace brigade::ps {
namespace {

using coordination::Contribution;
using coordination::Incarnation;
using coordination::PushVerdict;
using coordination::StepDecision;
using coordination::TaskRegistry;

constexpr const char* kNotCreatedYet =
    "The server has no variables yet: the chief creates them first.";
constexpr const char* kNotReadyYet =
    "The server is not ready: the chief has not initialized or restored the variables yet.";

// Bounds a wait that a caller may ask for, so that sums with times do not overflow.
constexpr std::chrono::milliseconds kLongestStepWait = std::chrono::hours(1);

std::vector<std::string> task_names(const std::vector<cluster::Task>& tasks) {
  std::vector<std::string> names;
  names.reserve(tasks.size());
  for (const cluster::Task& task : tasks) names.push_back(cluster::to_string(task));
  return names;
}

[[noreturn]] void refuse_replaced(const Incarnation& holder) {
  throw ReplacedError(base::str_cat("Incarnation ", holder.number, " of ", holder.task,
                                    " was replaced: a later one has joined, so this one ends."));
}

}  // namespace

class ServerCore::Impl {
 public:
  Impl(OpenStore store, ServerCoreOptions options, const base::Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        names_(task_names(options_.tasks)),
        open_(std::move(store)),
        store_(*open_.store),
        latencies_(*open_.latencies),
        snapshots_(*open_.snapshots),
        registry_(names_, options_.lease) {
    const concurrency::MutexLock lock(mutex_);
    if (store_.is_created()) job_ = job_from_state(store_.job());
    restore_registry();
  }

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

 private:
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
  void read_values(const ExchangeRequest& request, ExchangeReply& reply) BRIGADE_EXCLUDES(mutex_);
  void count(PushVerdict verdict) BRIGADE_EXCLUDES(mutex_);
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
  // kSync: gradients of steps that are not decided, to count those that are dropped.
  std::set<std::pair<std::int64_t, Contribution>> offered_ BRIGADE_GUARDED_BY(mutex_);
};

void ServerCore::Impl::restore_registry() {
  io::StateTree incarnations = io::StateTree::dict();
  for (std::size_t rank = 0; rank < names_.size(); ++rank) {
    const std::int64_t number = store_.incarnation(static_cast<int>(rank));
    if (number > 0) incarnations[names_[rank]] = number;
  }
  registry_.restore(incarnations);
  for (std::size_t rank = 0; rank < names_.size(); ++rank)
    if (store_.has_finished(static_cast<int>(rank)))
      registry_.restore_finished(names_[rank], clock_.now());
}

void ServerCore::Impl::throw_if_failed(const std::exception& error) {
  if (!store_.has_failed()) return;
  const concurrency::MutexLock lock(mutex_);
  if (!failure_) failure_ = base::without_stack_trace(error.what());
  changed_.notify_all();
  check_open();
}

void ServerCore::Impl::check_open() const {
  if (failure_)
    throw Error(
        ErrorCode::kUnavailable,
        base::str_cat("The parameter server cannot go on until it is started again: ", *failure_));
  if (is_closed_) throw Error(ErrorCode::kUnavailable, "The parameter server is ending.");
}

ServerCore::Impl::Caller ServerCore::Impl::authenticate(const std::string& token) {
  check_open();
  auto holder = registry_.authenticate(token, clock_.now());
  if (!holder) {
    ++counters_.refused_calls;
    throw NotMemberError(
        "The caller is no member of the parameter server: its lease has ended, the server was "
        "restarted, or another incarnation of its task has joined. It joins again.");
  }
  const int rank = registry_.rank(holder->task);
  return {.holder = std::move(*holder), .rank = rank};
}

ServerCore::Impl::Caller ServerCore::Impl::caller(const std::string& token) {
  const concurrency::MutexLock lock(mutex_);
  return authenticate(token);
}

void ServerCore::Impl::check_chief(const std::string& token, const char* what) {
  const concurrency::MutexLock lock(mutex_);
  const Caller from = authenticate(token);
  if (from.is_chief()) return;
  ++counters_.refused_calls;
  throw Error(ErrorCode::kPermissionDenied, base::str_cat("Only the chief, ", names_.front(), ", ",
                                                          what, ", not ", from.holder.task, "."));
}

std::optional<Incarnation> ServerCore::Impl::holder_of(const std::string& task) const {
  for (Incarnation& each : registry_.holders())
    if (each.task == task) return std::move(each);
  return std::nullopt;
}

void ServerCore::Impl::check_held(const Caller& from) const {
  const auto holder = holder_of(from.holder.task);
  if (holder == from.holder) return;
  if (holder) refuse_replaced(from.holder);
  throw NotMemberError(
      base::str_cat("The lease of ", from.holder.task, " has ended while it waited."));
}

std::set<int> ServerCore::Impl::present() const {
  std::set<int> ranks;
  for (const Incarnation& each : registry_.holders()) ranks.insert(registry_.rank(each.task));
  return ranks;
}

std::set<int> ServerCore::Impl::finished() const {
  std::set<int> ranks;
  for (const std::string& name : names_)
    if (registry_.has_finished(name)) ranks.insert(registry_.rank(name));
  return ranks;
}

/// A step that is decided with a gradient that this server does not have could never be applied.
void ServerCore::Impl::check_contribution(const Caller& from,
                                          const BeginStepRequest& request) const {
  if (!request.contribution || request.contribution->step != store_.step()) return;
  const auto& [step, index] = *request.contribution;
  check_argument(store_.has_offer(step, {.worker = from.rank, .index = index}),
                 base::str_cat(from.holder.task, " contributes gradient ", index, " of step ", step,
                               ", which it has not pushed here: it pushes it to all servers "
                               "first."));
}

/// A coordinator that was restarted does not know what an earlier life of the caller contributed,
/// and the caller does not either. That it was counted, the index of the caller's own says.
void ServerCore::Impl::report_earlier(const Caller& from, const BeginStepRequest& request) {
  if (!request.contribution || request.contribution->step != store_.step()) return;
  BeginStepRequest earlier{.finished = request.finished, .contribution = request.contribution};
  for (int index = 0; index < request.contribution->index; ++index) {
    if (!store_.has_offer(request.contribution->step, {.worker = from.rank, .index = index}))
      return;  // the gate names the gap
    earlier.contribution->index = index;
    gate().report(from.rank, earlier);
  }
}

TaskRegistry::Joined ServerCore::Impl::admit_to_registry(const JoinRequest& request,
                                                         const std::string& token,
                                                         std::vector<Change>& changes) {
  check_open();
  const std::string task = cluster::to_string(request.task);
  check_argument(request.incarnation != 0 || options_.is_coordinator,
                 base::str_cat(base::quoted(task),
                               " asks for an incarnation here: the job's first parameter server "
                               "gives it, so that it is the same at all."));
  const auto before = holder_of(task);
  TaskRegistry::Joined joined = registry_.join(task, request.incarnation, token, clock_.now());
  switch (joined.verdict) {
    case TaskRegistry::JoinVerdict::kUnknownTask:
      ++counters_.refused_calls;
      throw Error(ErrorCode::kNotFound,
                  base::str_cat(base::quoted(task),
                                " is none of the tasks that train: ", base::listed(names_, ", "),
                                ". Give all processes the same cluster."));
    case TaskRegistry::JoinVerdict::kReplaced:
      ++counters_.refused_calls;
      refuse_replaced({.task = task, .number = request.incarnation});
    case TaskRegistry::JoinVerdict::kJoined:
      break;
  }
  if (before == joined.holder) return joined;  // the same life, which has lost its connection
  if (gate_) gate_->leave(registry_.rank(task));
  changed_.notify_all();
  if (before) changes.push_back({TaskChange::kReplaced, *before});
  changes.push_back({TaskChange::kJoined, joined.holder});
  return joined;
}

Grant ServerCore::Impl::join(const JoinRequest& request, Time deadline) {
  const std::string token = rpc::make_token();
  std::vector<Change> changes;
  TaskRegistry::Joined joined;
  int rank = 0;
  {
    const concurrency::MutexLock lock(mutex_);
    joined = admit_to_registry(request, token, changes);
    rank = registry_.rank(joined.holder.task);
  }
  // On the disk before anybody acts with it: after a restart none is given twice.
  store_.admit(rank, joined.holder.number, deadline);
  report(changes);
  return {.token = token, .incarnation = joined.holder.number, .lease = options_.lease};
}

void ServerCore::Impl::report(const std::vector<Change>& changes) const {
  if (!options_.on_change) return;
  for (const Change& each : changes)
    options_.on_change(each.kind, cluster::parse_task(each.holder.task), each.holder.number);
}

ServerStatus ServerCore::Impl::renew(const std::string& token) {
  caller(token);
  return status();
}

void ServerCore::Impl::leave(const std::string& token, Time deadline) {
  const Caller from = caller(token);
  // On the disk first: a server that is restarted after the chief has left still ends.
  store_.finish(from.rank, from.holder.number, deadline);
  std::vector<Change> changes;
  {
    const concurrency::MutexLock lock(mutex_);
    check_held(from);
    registry_.leave(token, clock_.now());
    if (gate_) gate_->leave(from.rank);
    changed_.notify_all();
    changes.push_back({TaskChange::kFinished, from.holder});
  }
  report(changes);
  save_the_end();
}

/// Asks for a snapshot, once, if the job is over.
void ServerCore::Impl::save_the_end() {
  {
    const concurrency::MutexLock lock(mutex_);
    const bool is_over = registry_.is_finished(clock_.now());
    if (is_over == is_end_saved_) return;
    is_end_saved_ = is_over;
    if (!is_over) return;
  }
  snapshots_.request();
}

ServerStatus ServerCore::Impl::create(const std::string& token, const CreateRequest& request,
                                      Time deadline) {
  check_chief(token, "creates variables");
  check_job(request.job, static_cast<int>(names_.size()));
  const optim::UpdateRulePtr rule = optim::rule_from_config(request.rule);
  ServerStatus before = status();
  store_.create(request.variables, rule, to_state(request.job), deadline);
  {
    const concurrency::MutexLock lock(mutex_);
    job_ = request.job;
  }
  snapshots_.consider();
  return before;
}

void ServerCore::Impl::assign(const std::string& token, const std::vector<NamedState>& variables,
                              std::int64_t step, Time deadline) {
  check_chief(token, "assigns variables");
  check_state(store_.is_created(), kNotCreatedYet);
  store_.assign(variables, step, deadline);
  snapshots_.consider();
}

void ServerCore::Impl::set_ready(const std::string& token, Time deadline) {
  check_chief(token, "lets the workers begin");
  check_state(store_.is_created(), kNotCreatedYet);
  store_.set_ready(deadline);
}

void ServerCore::Impl::set_learning_rate(const std::string& token, double rate, Time deadline) {
  check_chief(token, "sets the learning rate");
  store_.set_learning_rate(rate, deadline);
}

JobConfig ServerCore::Impl::job() const {
  const concurrency::MutexLock lock(mutex_);
  check_state(job_.has_value(), kNotCreatedYet);
  return *job_;
}

void ServerCore::Impl::check_exchange(const ExchangeRequest& request) const {
  const bool is_sync = job().mode == UpdateMode::kSync;
  check_argument(is_sync || !request.decision,
                 "A decision of a step comes to a server whose job is not synchronous.");
  if (!request.push) return;
  const auto& token = request.push->token;
  check_argument(token.has_value() == is_sync,
                 is_sync ? "In synchronous training a push names the token for which its gradients "
                           "were computed."
                         : "A push names a token, and the job is not synchronous.");
}

/// Applies a decision that a caller has from the coordinator.
void ServerCore::Impl::apply_known(const StepDecision& decision, Time deadline) {
  if (decision.step < store_.step()) return;
  check_state(!options_.is_coordinator,
              base::str_cat("A caller knows a decision about step ", decision.step,
                            ", and the server that makes decisions has made none after step ",
                            store_.step() - 1, ": it was given another folder."));
  store_.apply(decision, deadline);
  const concurrency::MutexLock lock(mutex_);
  count_decided(decision);
}

/// Takes a push; `wait_committed` for its record has to follow.
ParameterStore::BegunPush ServerCore::Impl::take(const Caller& from, const Push& push,
                                                 Time deadline) {
  const coordination::PushId id = {
      .worker = from.rank, .incarnation = from.holder.number, .number = push.number};
  ParameterStore::BegunPush begun;
  if (push.token) {
    begun.verdict =
        store_.offer(id, push.token->step, push.token->index, push.gradients, push.rows, deadline);
    if (begun.verdict == PushVerdict::kApply) count_offer(from, *push.token);
  } else {
    begun = store_.begin_push(id, push.gradients, push.read_at, push.rows);
  }
  if (begun.verdict == PushVerdict::kFenced) refuse_replaced(from.holder);
  count(begun.verdict);
  return begun;
}

void ServerCore::Impl::count(PushVerdict verdict) {
  const concurrency::MutexLock lock(mutex_);
  if (verdict == PushVerdict::kApply) ++counters_.pushes;
  if (verdict == PushVerdict::kDuplicate) ++counters_.duplicates;
}

void ServerCore::Impl::count_offer(const Caller& from,
                                   const coordination::StepDecider::Token& token) {
  const concurrency::MutexLock lock(mutex_);
  if (token.step < store_.step())
    ++counters_.stale;
  else
    offered_.insert({token.step, {.worker = from.rank, .index = token.index}});
}

void ServerCore::Impl::count_decided(const StepDecision& decision) {
  std::erase_if(offered_, [&](const auto& offer) {
    const auto& [step, contribution] = offer;
    if (step > decision.step) return false;
    if (!std::ranges::binary_search(decision.contributions, contribution)) ++counters_.stale;
    return true;
  });
}

ExchangeReply ServerCore::Impl::exchange(const std::string& token, const ExchangeRequest& request,
                                         Time deadline) {
  const Caller from = caller(token);
  check_exchange(request);
  check_state(from.is_chief() || store_.is_ready(), kNotReadyYet);
  if (request.decision) apply_known(*request.decision, deadline);
  ExchangeReply reply;
  ParameterStore::BegunPush begun;
  const auto begin = std::chrono::steady_clock::now();
  if (request.push) {
    begun = take(from, *request.push, deadline);
    reply.verdict = begun.verdict;
    reply.staleness = begun.staleness;
  }
  // While the disk works. The caller may change its gradients afterwards, whatever happens.
  const auto wait = [&] { store_.wait_committed(begun.record, deadline); };
  try {
    read_values(request, reply);
  } catch (...) {
    wait();
    throw;
  }
  wait();
  if (request.push) latencies_.pushes.add(std::chrono::steady_clock::now() - begin);
  if (request.push || request.decision) snapshots_.consider();
  return reply;
}

void ServerCore::Impl::read_values(const ExchangeRequest& request, ExchangeReply& reply) {
  if (request.pull.empty() && request.pull_rows.empty()) {
    reply.step = store_.step();
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  ParameterStore::Pulled pulled = store_.pull(request.pull, request.pull_rows);
  latencies_.pulls.add(std::chrono::steady_clock::now() - begin);
  reply.values = std::move(pulled.values);
  reply.rows = std::move(pulled.rows);
  reply.step = pulled.step;
  const concurrency::MutexLock lock(mutex_);
  ++counters_.pulls;
}

StoredStates ServerCore::Impl::states(const std::string& token,
                                      const std::vector<std::string>& names) {
  caller(token);
  check_state(store_.is_created(), kNotCreatedYet);
  return store_.states(names);
}

StepGate& ServerCore::Impl::gate() {
  if (!gate_) gate_.emplace(job_.value(), names_, store_.step(), store_.last_decision());
  return *gate_;
}

BeginStepReply ServerCore::Impl::begin_step(const std::string& token,
                                            const BeginStepRequest& request, Time deadline) {
  const Time until =
      clock_.now() + std::clamp(request.wait, std::chrono::milliseconds(0), kLongestStepWait);
  Caller from;
  {
    const concurrency::MutexLock lock(mutex_);
    from = authenticate(token);
    check_state(options_.is_coordinator,
                "Steps begin at the job's first parameter server, not at this one.");
    check_state(store_.is_ready(), kNotReadyYet);
    check_contribution(from, request);
    report_earlier(from, request);
    if (gate().report(from.rank, request)) changed_.notify_all();
  }
  for (;;) {
    confirm_decision(deadline);
    const concurrency::MutexLock lock(mutex_);
    check_open();
    check_held(from);
    BeginStepReply reply = gate_->reply(from.rank, present(), finished());
    if (reply.may_begin) return reply;
    const Time now = clock_.now(), machine_now = std::chrono::steady_clock::now();
    if (now >= until) return reply;
    if (machine_now >= deadline) {
      throw Error(
          ErrorCode::kDeadlineExceeded,
          base::str_cat("The deadline of ", from.holder.task, " has passed while it waited for ",
                        reply.waiting_for.empty() ? std::string("the server's disk")
                                                  : base::listed(reply.waiting_for, ", "),
                        " to begin its next step."));
    }
    if (!has_to_confirm())
      changed_.wait_until(mutex_, std::min(deadline, machine_now + (until - now)));
  }
}

bool ServerCore::Impl::has_to_confirm() const {
  return gate_ && gate_->unconfirmed() && !is_confirming_;
}

void ServerCore::Impl::confirm_decision(Time deadline) {
  StepDecision decision;
  {
    const concurrency::MutexLock lock(mutex_);
    if (!has_to_confirm()) return;
    is_confirming_ = true;
    decision = *gate_->unconfirmed();
  }
  try {
    // All servers update with one rate, whenever each hears of a new one.
    decision.learning_rate = store_.learning_rate();
    store_.apply(decision, deadline);
    decision = store_.last_decision().value();  // an earlier try may have had another rate
  } catch (...) {  // the next caller tries again: applying twice changes nothing
    end_confirming();
    throw;
  }
  {
    const concurrency::MutexLock lock(mutex_);
    gate_->confirm(decision);
    count_decided(decision);
  }
  end_confirming();
  snapshots_.consider();
}

void ServerCore::Impl::end_confirming() {
  const concurrency::MutexLock lock(mutex_);
  is_confirming_ = false;
  changed_.notify_all();
}

void ServerCore::Impl::tick() {
  std::vector<Change> changes;
  {
    const concurrency::MutexLock lock(mutex_);
    for (Incarnation& lost : registry_.expire(clock_.now())) {
      if (gate_) gate_->leave(registry_.rank(lost.task));
      ++counters_.lost_leases;
      changes.push_back({TaskChange::kLost, std::move(lost)});
    }
    changed_.notify_all();  // waits end by clock_, too
  }
  report(changes);
  save_the_end();
}

std::optional<ServerCore::Time> ServerCore::Impl::next_expiry() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.next_expiry();
}

bool ServerCore::Impl::has_chief_finished() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.has_finished(names_.front());
}

bool ServerCore::Impl::is_finished() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.is_finished(clock_.now());
}

std::optional<std::string> ServerCore::Impl::failure() const {
  const concurrency::MutexLock lock(mutex_);
  return failure_;
}

ServerStatus ServerCore::Impl::status() const {
  ServerStatus status = {.is_created = store_.is_created(),
                         .is_ready = store_.is_ready(),
                         .step = store_.step(),
                         .learning_rate = store_.learning_rate()};
  const concurrency::MutexLock lock(mutex_);
  if (job_)
    status.job = *job_;
  else
    status.is_created = false;  // `create` has not returned: nobody may see a job without its mode
  return status;
}

ServerCounters ServerCore::Impl::counters() const {
  const concurrency::MutexLock lock(mutex_);
  return counters_;
}

ServerMetrics ServerCore::Impl::metrics() const {
  ServerMetrics metrics = {.status = status(),
                           .waiting_records = store_.waiting_records(),
                           .log_bytes = store_.log_bytes(),
                           .pushes = latencies_.pushes.counts(),
                           .pulls = latencies_.pulls.counts(),
                           .log_syncs = latencies_.log_syncs.counts()};
  const concurrency::MutexLock lock(mutex_);
  metrics.counters = counters_;
  metrics.members = static_cast<std::int64_t>(registry_.holders().size());
  return metrics;
}

void ServerCore::Impl::close() {
  const concurrency::MutexLock lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

ServerCore::ServerCore(std::shared_ptr<io::FileSystem> files, const ServerCoreOptions& options,
                       const base::Clock& clock)
    : ServerCore(open_store(std::move(files), options.store, options.snapshot_after_bytes), options,
                 clock) {}
ServerCore::ServerCore(OpenStore store, ServerCoreOptions options, const base::Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(store), std::move(options), clock)) {}
ServerCore::~ServerCore() = default;

OpenStore ServerCore::release(std::unique_ptr<ServerCore> core) {
  core->close();
  return core->impl_->release();
}

Grant ServerCore::join(const JoinRequest& request, Time deadline) {
  return impl_->serve([&] { return impl_->join(request, deadline); });
}
ServerStatus ServerCore::renew(const std::string& token, Time) {
  return impl_->serve([&] { return impl_->renew(token); });
}
void ServerCore::leave(const std::string& token, Time deadline) {
  impl_->serve([&] { return impl_->leave(token, deadline); });
}
ServerStatus ServerCore::create(const std::string& token, const CreateRequest& request,
                                Time deadline) {
  return impl_->serve([&] { return impl_->create(token, request, deadline); });
}
void ServerCore::assign(const std::string& token, const std::vector<NamedState>& variables,
                        std::int64_t step, Time deadline) {
  impl_->serve([&] { return impl_->assign(token, variables, step, deadline); });
}
void ServerCore::set_ready(const std::string& token, Time deadline) {
  impl_->serve([&] { return impl_->set_ready(token, deadline); });
}
void ServerCore::set_learning_rate(const std::string& token, double rate, Time deadline) {
  impl_->serve([&] { return impl_->set_learning_rate(token, rate, deadline); });
}
ExchangeReply ServerCore::exchange(const std::string& token, const ExchangeRequest& request,
                                   Time deadline) {
  return impl_->serve([&] { return impl_->exchange(token, request, deadline); });
}
StoredStates ServerCore::states(const std::string& token, const std::vector<std::string>& names,
                                Time) {
  return impl_->serve([&] { return impl_->states(token, names); });
}
BeginStepReply ServerCore::begin_step(const std::string& token, const BeginStepRequest& request,
                                      Time deadline) {
  return impl_->serve([&] { return impl_->begin_step(token, request, deadline); });
}

StoreMoment ServerCore::moment(const std::function<void(std::int64_t covered)>& begin) {
  return impl_->serve([&] { return impl_->store().moment(begin); });
}

void ServerCore::tick() {
  impl_->tick();
}
std::optional<ServerCore::Time> ServerCore::next_expiry() const {
  return impl_->next_expiry();
}
bool ServerCore::has_chief_finished() const {
  return impl_->has_chief_finished();
}
bool ServerCore::is_finished() const {
  return impl_->is_finished();
}
std::optional<std::string> ServerCore::failure() const {
  return impl_->failure();
}
ServerStatus ServerCore::status() const {
  return impl_->status();
}
ServerCounters ServerCore::counters() const {
  return impl_->counters();
}
ServerMetrics ServerCore::metrics() const {
  return impl_->metrics();
}
void ServerCore::close() {
  impl_->close();
}

}  // namespace brigade::ps

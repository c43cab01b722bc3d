#include "brigade/ps/coordinator/coordinator_core.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/rpc/token.h"

namespace brigade::ps {
namespace {

using coordination::FunctionOutcome;
using coordination::FunctionQueue;
using coordination::Incarnation;
using coordination::TaskRegistry;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How soon a call that waits notices that its caller is gone.
constexpr milliseconds kCheckCallers{200};
// Bounds what a caller may ask for, so that sums with times do not overflow.
constexpr milliseconds kLongestTake = std::chrono::minutes(1);
// As at a parameter server: a lost worker may only have been slow, or is started again.
constexpr int kTermsToReturn = 3;
constexpr const char* kAnotherFailed = "another one has failed";

std::vector<std::string> worker_names(const std::vector<cluster::Task>& workers) {
  std::vector<std::string> names;
  for (const cluster::Task& each : workers) names.push_back(cluster::to_string(each));
  return names;
}

std::string new_id() {
  const std::string random = rpc::make_token();
  return base::to_hex(std::as_bytes(std::span(random)));
}

Error failure_of(const std::string& function, const std::string& worker,
                 const FunctionError& error) {
  return Error(error.code, "Function ", base::quoted(function), " failed on ", worker, ": ",
               error.message);
}

}  // namespace

CoordinatorCore::CoordinatorCore(CoordinatorCoreOptions options, const base::Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      names_(worker_names(options_.workers)),
      id_(new_id()),
      registry_(names_, options_.lease),
      queue_(options_.queue) {}
CoordinatorCore::~CoordinatorCore() {
  cancel("it was destroyed");
}

void CoordinatorCore::check_not_cancelled() const {
  if (cancelled_)
    throw Error(ErrorCode::kCancelled, "The coordinator runs no functions, because ", *cancelled_,
                ".");
}

void CoordinatorCore::throw_error() {
  if (!error_) return;
  queue_.take_error();
  changed_.notify_all();
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void CoordinatorCore::check_inputs(const ScheduledFunction& function) const {
  FunctionData named{.values = function.arguments.values};
  for (const RemoteInput& each : function.inputs) {
    add_input(named, each.name, {});
    check_argument(RemoteResult::owner_of(each.value) == this, "Input ", base::quoted(each.name),
                   " of function ", base::quoted(function.function),
                   " is a value of another coordinator.");
  }
}

bool CoordinatorCore::has_room() const {
  return queue_.has_room() && queue_.queued() + held_.size() < options_.queue.capacity;
}

bool CoordinatorCore::has_none() const {
  return queue_.is_idle() && held_.empty();
}

RemoteValue CoordinatorCore::schedule(ScheduledFunction function, Time deadline) {
  check_inputs(function);
  const concurrency::MutexLock lock(mutex_);
  while (true) {
    check_not_cancelled();
    throw_error();
    if (has_room()) break;
    if (Clock::now() >= deadline)
      throw Error(ErrorCode::kDeadlineExceeded, "Function ", base::quoted(function.function),
                  " was not scheduled: ", queue_.queued() + held_.size(),
                  " others wait for a worker, and ", registry_.holders().size(), " of ",
                  names_.size(), " workers are there.");
    changed_.wait_until(mutex_, deadline);
  }
  for (const RemoteInput& each : function.inputs)
    if (each.value.state() == RemoteValueState::kAborted) each.value.get();  // throws its error
  held_.push_back(Open{.function = std::move(function), .result = RemoteResult(this)});
  const RemoteValue value = held_.back().result.value();
  release_ready();
  changed_.notify_all();
  return value;
}

/// Gives the queue what its inputs allow, and it has room for.
void CoordinatorCore::release_ready() {
  for (auto each = held_.begin(); each != held_.end() && queue_.has_room();) {
    const bool is_ready = std::ranges::all_of(each->function.inputs, [](const RemoteInput& input) {
      return input.value.state() == RemoteValueState::kAvailable;
    });
    if (!is_ready) {
      ++each;
      continue;
    }
    Open ready = std::move(*each);
    each = held_.erase(each);
    try {
      for (const RemoteInput& input : ready.function.inputs)
        add_input(ready.function.arguments, input.name, input.value.get());
      if (options_.check_complete && !ready.function.inputs.empty())
        options_.check_complete(ready.function);
    } catch (const std::exception&) {
      return fail_at_release(ready, std::current_exception());
    }
    ready.function.inputs.clear();
    open_.emplace(queue_.add(), std::move(ready));
  }
}

void CoordinatorCore::fail_at_release(const Open& function, const std::exception_ptr& error) {
  function.result.abort(error);
  cancel_functions(queue_.cancel().cancelled, kAnotherFailed);
  cancel_held(kAnotherFailed);
  error_ = error;
}

void CoordinatorCore::join_functions(Time deadline) {
  const concurrency::MutexLock lock(mutex_);
  while (true) {
    check_not_cancelled();
    if (has_none()) return throw_error();
    if (Clock::now() >= deadline)
      throw Error(ErrorCode::kDeadlineExceeded, queue_.queued() + held_.size(),
                  " functions still wait, and ", queue_.running(), " run; ",
                  registry_.holders().size(), " of ", names_.size(), " workers are there.");
    changed_.wait_until(mutex_, deadline);
  }
}

bool CoordinatorCore::is_idle() const {
  const concurrency::MutexLock lock(mutex_);
  return has_none();
}

std::optional<std::size_t> CoordinatorCore::wait_any(std::span<const RemoteValue> values,
                                                     Time deadline) {
  const concurrency::MutexLock lock(mutex_);  // under which values are settled
  while (true) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i].state() != RemoteValueState::kPending) return i;
    if (values.empty() || Clock::now() >= deadline) return std::nullopt;
    changed_.wait_until(mutex_, deadline);
  }
}

bool CoordinatorCore::has_open_phase() const {
  return phase_ > 0 && !ended_phases_.contains(phase_);
}

std::int64_t CoordinatorCore::begin_phase() {
  const concurrency::MutexLock lock(mutex_);
  check_not_cancelled();
  if (has_open_phase())
    ended_phases_[phase_] = {
        .error = FunctionError{.code = ErrorCode::kAborted,
                               .message = "it has ended with an error in the coordinator."}};
  drop_all("a new phase has begun");
  return ++phase_;
}

void CoordinatorCore::end_phase(io::StateTree outcome) {
  const concurrency::MutexLock lock(mutex_);
  check_state(has_open_phase(), "A coordinator ends a phase, and none is open.");
  ended_phases_[phase_] = {.outcome = std::move(outcome)};
  drop_all("its phase has ended");
}

void CoordinatorCore::drop_functions(const std::string& reason) {
  const concurrency::MutexLock lock(mutex_);
  drop_all(reason);
}

void CoordinatorCore::drop_all(const std::string& reason) {
  cancel_functions(queue_.cancel().cancelled, reason);
  cancel_held(reason);
  queue_.take_error();
  error_ = nullptr;
  changed_.notify_all();
}

std::int64_t CoordinatorCore::new_value_id() {
  const concurrency::MutexLock lock(mutex_);
  return ++last_value_;
}

Incarnation CoordinatorCore::authenticate(const std::string& token) {
  if (is_closed_) throw Error(ErrorCode::kUnavailable, "The coordinator is ending.");
  auto holder = registry_.authenticate(token, clock_.now());
  if (!holder)
    throw NotMemberError(
        "The caller is no worker of the coordinator: its lease has ended, the coordinator was "
        "restarted, or another incarnation of its task has joined. It joins again.");
  return std::move(*holder);
}

std::optional<Incarnation> CoordinatorCore::holder_of(const std::string& task) const {
  for (Incarnation& each : registry_.holders())
    if (each.task == task) return std::move(each);
  return std::nullopt;
}

WorkerGrant CoordinatorCore::join(const WorkerJoin& request, Time) {
  const std::string token = rpc::make_token();
  const std::string task = cluster::to_string(request.task);
  std::vector<Change> changes;
  TaskRegistry::Joined joined;
  {
    const concurrency::MutexLock lock(mutex_);
    if (is_closed_) throw Error(ErrorCode::kUnavailable, "The coordinator is ending.");
    const auto before = holder_of(task);
    // Another coordinator's incarnations say nothing about the order of lives here.
    const std::int64_t known = request.coordinator == id_ ? request.incarnation : 0;
    joined = registry_.join(task, known, token, clock_.now());
    if (joined.verdict == TaskRegistry::JoinVerdict::kUnknownTask)
      throw Error(ErrorCode::kNotFound, base::quoted(task),
                  " is none of the coordinator's workers: ", base::listed(names_, ", "),
                  ". Give all processes the same cluster.");
    if (joined.verdict == TaskRegistry::JoinVerdict::kReplaced)
      throw ReplacedError(base::str_cat(
          "Incarnation ", request.incarnation, " of ", task,
          " was replaced: a later one has joined the coordinator, so this one ends."));
    seen_.insert(task);
    lost_at_.erase(task);
    if (before != joined.holder) {
      if (before) {
        lose(*before);
        changes.push_back({TaskChange::kReplaced, *before});
      }
      changes.push_back({TaskChange::kJoined, joined.holder});
    }
    changed_.notify_all();
  }
  report(changes);
  return {.token = token,
          .coordinator = id_,
          .incarnation = joined.holder.number,
          .lease = options_.lease};
}

WorkerStatus CoordinatorCore::renew(const std::string& token, std::int64_t running, Time) {
  const concurrency::MutexLock lock(mutex_);
  const Incarnation worker = authenticate(token);
  return {.is_done = is_done_, .is_wanted = queue_.is_wanted(worker, running)};
}

TakeReply CoordinatorCore::take(const std::string& token, const TakeRequest& request,
                                Time deadline) {
  const Time end =
      std::min(deadline, Clock::now() + std::clamp(request.wait, milliseconds(0), kLongestTake));
  std::optional<Incarnation> worker;
  while (true) {
    if (request.check) request.check();
    const concurrency::MutexLock lock(mutex_);
    // Only the call itself renews the lease: its caller may be gone while it waits.
    if (!worker) worker = authenticate(token);
    if (is_closed_) throw Error(ErrorCode::kUnavailable, "The coordinator is ending.");
    if (holder_of(worker->task) != worker)
      throw NotMemberError(
          base::str_cat("The lease of ", worker->task, " has ended while it waited."));
    const auto ended = ended_phases_.find(request.phase);
    if (ended != ended_phases_.end()) return {.phase_end = ended->second};
    if (is_done_) return {.is_done = true};
    const auto id = request.phase == phase_ ? queue_.next(*worker) : std::nullopt;
    if (id) {
      release_ready();  // the queue has room
      changed_.notify_all();
      const ScheduledFunction& function = open_.at(*id).function;
      return {.work = FunctionWork{.coordinator = id_,
                                   .id = *id,
                                   .function = function.function,
                                   .arguments = function.arguments,
                                   .per_worker = function.per_worker}};
    }
    const Time now = Clock::now();
    if (now >= end) return {};
    changed_.wait_until(mutex_, std::min(end, now + kCheckCallers));
  }
}

void CoordinatorCore::finish(const std::string& token, const FunctionReport& report, Time) {
  const concurrency::MutexLock lock(mutex_);
  const Incarnation worker = authenticate(token);
  if (report.coordinator != id_) return;  // an earlier coordinator's
  const auto settlement = queue_.finish(
      worker, report.id, report.error ? FunctionOutcome::kFailed : FunctionOutcome::kSucceeded);
  if (settlement.succeeded) {
    const auto done = open_.find(*settlement.succeeded);
    done->second.result.set(report.result);
    open_.erase(done);
    release_ready();
  }
  if (settlement.failed) {
    const std::string& function = open_.at(*settlement.failed).function.function;
    fail(*settlement.failed, failure_of(function, worker.task, *report.error));
    cancel_functions(settlement.cancelled, kAnotherFailed);
    cancel_held(kAnotherFailed);
  }
  changed_.notify_all();
}

void CoordinatorCore::fail(FunctionQueue::Id failed, const Error& error) {
  error_ = std::make_exception_ptr(error);
  const auto function = open_.find(failed);
  function->second.result.abort(error_);
  open_.erase(function);
}

void CoordinatorCore::cancel_functions(const std::vector<FunctionQueue::Id>& functions,
                                       const std::string& reason) {
  for (const FunctionQueue::Id each : functions) {
    const auto found = open_.find(each);
    abort(found->second, reason);
    open_.erase(found);
  }
}

void CoordinatorCore::abort(const Open& function, const std::string& reason) const {
  function.result.abort(std::make_exception_ptr(Error(ErrorCode::kCancelled, "Function ",
                                                      base::quoted(function.function.function),
                                                      " was cancelled, because ", reason, ".")));
}

void CoordinatorCore::cancel_held(const std::string& reason) {
  for (const Open& each : held_) abort(each, reason);
  held_.clear();
}

void CoordinatorCore::lose(const Incarnation& worker) {
  const auto settlement = queue_.lose(worker);
  if (settlement.failed) {
    const std::string& function = open_.at(*settlement.failed).function.function;
    fail(*settlement.failed,
         failure_of(
             function, worker.task,
             {.code = ErrorCode::kAborted,
              .message = base::str_cat(
                  "its worker was lost ", options_.queue.max_losses,
                  " times while it ran, so it is not run again. Look at the workers' output.")}));
    cancel_functions(settlement.cancelled, kAnotherFailed);
    cancel_held(kAnotherFailed);
  }
  changed_.notify_all();
}

void CoordinatorCore::leave(const std::string& token, Time) {
  std::vector<Change> changes;
  {
    const concurrency::MutexLock lock(mutex_);
    const Incarnation worker = authenticate(token);
    registry_.leave(token, clock_.now());
    lose(worker);
    changes.push_back({TaskChange::kFinished, worker});
  }
  report(changes);
}

void CoordinatorCore::tick() {
  std::vector<Change> changes;
  {
    const concurrency::MutexLock lock(mutex_);
    for (Incarnation& lost : registry_.expire(clock_.now())) {
      lose(lost);
      lost_at_[lost.task] = clock_.now();
      changes.push_back({TaskChange::kLost, std::move(lost)});
    }
  }
  report(changes);
}

std::optional<CoordinatorCore::Time> CoordinatorCore::next_expiry() const {
  const concurrency::MutexLock lock(mutex_);
  return registry_.next_expiry();
}

int CoordinatorCore::num_present() const {
  const concurrency::MutexLock lock(mutex_);
  return static_cast<int>(registry_.holders().size());
}

bool CoordinatorCore::expects_workers(Time latecomers) const {
  const concurrency::MutexLock lock(mutex_);
  const Time now = clock_.now();
  const bool may_return = std::ranges::any_of(lost_at_, [&](const auto& each) {
    return now < each.second + kTermsToReturn * options_.lease;
  });
  return !registry_.holders().empty() || may_return ||
         (now < latecomers && seen_.size() < names_.size());
}

void CoordinatorCore::cancel_all(const std::string& reason) {
  cancel_functions(queue_.cancel().cancelled, reason);
  cancel_held(reason);
  if (!cancelled_) cancelled_ = reason;
  changed_.notify_all();
}

void CoordinatorCore::cancel(const std::string& reason) {
  const concurrency::MutexLock lock(mutex_);
  cancel_all(reason);
}

void CoordinatorCore::end() {
  const concurrency::MutexLock lock(mutex_);
  cancel_all("it has ended");
  is_done_ = true;
}

void CoordinatorCore::close() {
  const concurrency::MutexLock lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

void CoordinatorCore::report(const std::vector<Change>& changes) const {
  if (!options_.on_change) return;
  for (const Change& each : changes)
    options_.on_change(each.kind, cluster::parse_task(each.holder.task), each.holder.number);
}

}  // namespace brigade::ps

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/ps/server/server_core.h"
#include "brigade/rpc/token.h"

/// Who may call a server: its members, and what becomes of them.
namespace brigade::ps {
namespace {

using coordination::Incarnation;
using coordination::TaskRegistry;

}  // namespace

void ServerCore::refuse_replaced(const Incarnation& holder) {
  throw ReplacedError(base::str_cat("Incarnation ", holder.number, " of ", holder.task,
                                    " was replaced: a later one has joined, so this one ends."));
}

ServerCore::Caller ServerCore::authenticate(const std::string& token) {
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

ServerCore::Caller ServerCore::caller(const std::string& token) {
  const concurrency::MutexLock lock(mutex_);
  return authenticate(token);
}

void ServerCore::check_chief(const std::string& token, const char* what) {
  const concurrency::MutexLock lock(mutex_);
  const Caller from = authenticate(token);
  if (from.is_chief()) return;
  ++counters_.refused_calls;
  throw Error(ErrorCode::kPermissionDenied, "Only the chief, ", names_.front(), ", ", what,
              ", not ", from.holder.task, ".");
}

std::optional<Incarnation> ServerCore::holder_of(const std::string& task) const {
  for (Incarnation& each : registry_.holders())
    if (each.task == task) return std::move(each);
  return std::nullopt;
}

void ServerCore::check_held(const Caller& from) const {
  const auto holder = holder_of(from.holder.task);
  if (holder == from.holder) return;
  if (holder) refuse_replaced(from.holder);
  throw NotMemberError(
      base::str_cat("The lease of ", from.holder.task, " has ended while it waited."));
}

std::set<int> ServerCore::present() const {
  std::set<int> ranks;
  for (const Incarnation& each : registry_.holders()) ranks.insert(registry_.rank(each.task));
  return ranks;
}

std::set<int> ServerCore::finished() const {
  std::set<int> ranks;
  for (const std::string& name : names_)
    if (registry_.has_finished(name)) ranks.insert(registry_.rank(name));
  return ranks;
}

TaskRegistry::Joined ServerCore::admit_to_registry(const JoinRequest& request,
                                                   const std::string& token,
                                                   std::vector<Change>& changes) {
  check_open();
  const std::string task = cluster::to_string(request.task);
  check_argument(request.incarnation != 0 || options_.is_coordinator, base::quoted(task),
                 " asks for an incarnation here: the job's first parameter server gives it, so "
                 "that it is the same at all.");
  const auto before = holder_of(task);
  TaskRegistry::Joined joined = registry_.join(task, request.incarnation, token, clock_.now());
  switch (joined.verdict) {
    case TaskRegistry::JoinVerdict::kUnknownTask:
      ++counters_.refused_calls;
      throw Error(ErrorCode::kNotFound, base::quoted(task),
                  " is none of the tasks that train: ", base::listed(names_, ", "),
                  ". Give all processes the same cluster.");
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

Grant ServerCore::join(const JoinRequest& request, Time deadline) {
  return serve([&]() -> Grant {
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
  });
}

void ServerCore::report(const std::vector<Change>& changes) const {
  if (!options_.on_change) return;
  for (const Change& each : changes)
    options_.on_change(each.kind, cluster::parse_task(each.holder.task), each.holder.number);
}

ServerStatus ServerCore::renew(const std::string& token, Time) {
  return serve([&] {
    caller(token);
    return status();
  });
}

void ServerCore::leave(const std::string& token, Time deadline) {
  serve([&] {
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
  });
}

/// Asks for a snapshot, once, if the job is over.
void ServerCore::save_the_end() {
  {
    const concurrency::MutexLock lock(mutex_);
    const bool is_over = registry_.is_finished(clock_.now());
    if (is_over == is_end_saved_) return;
    is_end_saved_ = is_over;
    if (!is_over) return;
  }
  snapshots_.request();
}

}  // namespace brigade::ps

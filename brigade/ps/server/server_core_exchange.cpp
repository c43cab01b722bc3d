#include <algorithm>
#include <functional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/optim/rule_config.h"
#include "brigade/ps/server/job_config.h"
#include "brigade/ps/server/server_core.h"

/// Variables of a server: the chief creates them, all push and pull.
namespace brigade::ps {
namespace {

using coordination::PushVerdict;
using coordination::StepDecision;

}  // namespace

ServerStatus ServerCore::create(const std::string& token, const CreateRequest& request,
                                Time deadline) {
  return serve([&] {
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
  });
}

void ServerCore::assign(const std::string& token, const std::vector<NamedState>& variables,
                        std::int64_t step, Time deadline) {
  serve([&] {
    check_chief(token, "assigns variables");
    check_state(store_.is_created(), kNotCreatedYet);
    store_.assign(variables, step, deadline);
    snapshots_.consider();
  });
}

void ServerCore::set_ready(const std::string& token, Time deadline) {
  serve([&] {
    check_chief(token, "lets the workers begin");
    check_state(store_.is_created(), kNotCreatedYet);
    store_.set_ready(deadline);
  });
}

void ServerCore::set_learning_rate(const std::string& token, double rate, Time deadline) {
  serve([&] {
    check_chief(token, "sets the learning rate");
    store_.set_learning_rate(rate, deadline);
  });
}

JobConfig ServerCore::job() const {
  const concurrency::MutexLock lock(mutex_);
  check_state(job_.has_value(), kNotCreatedYet);
  return *job_;
}

void ServerCore::check_exchange(const ExchangeRequest& request) const {
  const bool is_sync = job().mode == UpdateMode::kSync;
  check_argument(is_sync || !request.decision,
                 "A decision of a step comes to a server whose job is not synchronous.");
  if (!request.push) return;
  const auto& token = request.push->token;
  check_argument(!is_sync || !request.push->acknowledge_later,
                 "A push of a synchronous job is acknowledged before it is answered.");
  check_argument(
      token.has_value() == is_sync,
      is_sync
          ? "In synchronous training a push names the token for which its gradients were computed."
          : "A push names a token, and the job is not synchronous.");
}

/// Applies a decision that a caller has from the coordinator.
void ServerCore::apply_known(const StepDecision& decision, Time deadline) {
  if (decision.step < store_.step()) return;
  check_state(!options_.is_coordinator, "A caller knows a decision about step ", decision.step,
              ", and the server that makes decisions has made none after step ", store_.step() - 1,
              ": it was given another folder.");
  store_.apply(decision, deadline);
  const concurrency::MutexLock lock(mutex_);
  count_decided(decision);
}

/// Takes a push; `wait_committed` for its record has to follow.
ParameterStore::BegunPush ServerCore::take(const Caller& from, const Push& push, Time deadline) {
  const coordination::PushId id = {
      .worker = from.rank, .incarnation = from.holder.number, .number = push.number};
  ParameterStore::BegunPush begun;
  if (push.token) {
    begun.verdict =
        store_.offer(id, push.token->step, push.token->index, push.gradients, push.rows, deadline);
    if (begun.verdict == PushVerdict::kApply) count_offer(from, *push.token);
  } else {
    std::function<void()> write_log;
    if (push.acknowledge_later) write_log = [this] { log_syncs_.request(); };
    begun = store_.begin_push(id, push.gradients, push.read_at, push.rows, write_log);
  }
  if (begun.verdict == PushVerdict::kFenced) refuse_replaced(from.holder);
  count(begun.verdict);
  return begun;
}

void ServerCore::count(PushVerdict verdict) {
  const concurrency::MutexLock lock(mutex_);
  if (verdict == PushVerdict::kApply) ++counters_.pushes;
  if (verdict == PushVerdict::kDuplicate) ++counters_.duplicates;
}

void ServerCore::count_offer(const Caller& from, const coordination::StepDecider::Token& token) {
  const concurrency::MutexLock lock(mutex_);
  if (token.step < store_.step())
    ++counters_.stale;
  else
    offered_.insert({token.step, {.worker = from.rank, .index = token.index}});
}

void ServerCore::count_decided(const StepDecision& decision) {
  std::erase_if(offered_, [&](const auto& offer) {
    const auto& [step, contribution] = offer;
    if (step > decision.step) return false;
    if (!std::ranges::binary_search(decision.contributions, contribution)) ++counters_.stale;
    return true;
  });
}

/// Records the log entry of a push that is acknowledged later. Returns that of the push before. A
/// call that was abandoned by its caller, and repeated, may get here after the caller's later
/// calls.
std::int64_t ServerCore::defer(const Caller& from, std::int64_t record) {
  const concurrency::MutexLock lock(mutex_);
  std::int64_t& last = deferred_[from.rank];
  return std::exchange(last, std::max(last, record));
}

/// 0 for none: those of earlier lives of the server are on the disk.
std::int64_t ServerCore::last_record_of(const Caller& from) const {
  const concurrency::MutexLock lock(mutex_);
  const auto found = deferred_.find(from.rank);
  return found == deferred_.end() ? 0 : found->second;
}

ExchangeReply ServerCore::exchange(const std::string& token, const ExchangeRequest& request,
                                   Time deadline) {
  return serve([&] {
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
    const bool is_deferred =
        request.push && request.push->acknowledge_later && begun.verdict == PushVerdict::kApply;
    std::int64_t awaited = is_deferred ? defer(from, begun.record) : begun.record;
    if (request.await_disk) awaited = std::max(awaited, last_record_of(from));
    try {
      read_values(request, reply);  // while the disk works
      store_.wait_committed(awaited, deadline);
    } catch (...) {
      store_.wait_committed(begun.record, deadline);  // the caller may change its gradients now
      throw;
    }
    if (begun.verdict == PushVerdict::kApply || begun.verdict == PushVerdict::kDuplicate) {
      if (request.push) reply.acknowledged = request.push->number - (is_deferred ? 1 : 0);
    }
    if (request.push) latencies_.pushes.add(std::chrono::steady_clock::now() - begin);
    if (request.push || request.decision) snapshots_.consider();
    return reply;
  });
}

void ServerCore::read_values(const ExchangeRequest& request, ExchangeReply& reply) {
  if (request.pull.empty() && request.pull_rows.empty()) {
    reply.step = store_.step();
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  ParameterStore::Pulled pulled =
      store_.pull(request.pull, request.pull_rows, request.reply_memory);
  latencies_.pulls.add(std::chrono::steady_clock::now() - begin);
  reply.values = std::move(pulled.values);
  reply.rows = std::move(pulled.rows);
  reply.step = pulled.step;
  const concurrency::MutexLock lock(mutex_);
  ++counters_.pulls;
}

StoredStates ServerCore::states(const std::string& token, const std::vector<std::string>& names,
                                Time) {
  return serve([&] {
    caller(token);
    check_state(store_.is_created(), kNotCreatedYet);
    return store_.states(names);
  });
}

}  // namespace brigade::ps

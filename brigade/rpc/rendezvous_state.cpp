#include "brigade/rpc/rendezvous_state.h"

#include <algorithm>
#include <utility>

#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/rpc/token.h"

namespace brigade::rpc {
namespace {

bool any(const PendingCall&) {
  return true;
}

}  // namespace

std::string in_seconds(std::chrono::milliseconds time) {
  return base::str_cat(static_cast<double>(time.count()) / 1000, " s");
}

RendezvousState::RendezvousState(RendezvousStateOptions options, const base::Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      world_size_(options_.world_size),
      generation_(options_.generation),
      last_tick_(clock.now()),
      next_tick_(last_tick_) {
  check_argument(world_size_ >= 1, "A rendezvous needs a world_size of 1 or more.");
  check_argument(options_.peer_timeout.count() >= 1, "A rendezvous needs a peer_timeout above 0.");
}

std::optional<MemberId> RendezvousState::join(const Hello& hello,
                                              std::shared_ptr<Listener> listener) {
  std::optional<MemberId> id;
  {
    const concurrency::MutexLock lock(mutex_);
    Entry entry{
        .member = hello.member, .listener = std::move(listener), .last_contact = clock_.now()};
    if (const auto refused = refusal(hello)) {
      notify_end(entry, *refused);
    } else {
      id = ++last_id_;
      const std::string& token = tokens_[*id] = make_token();
      notify(entry, Welcome{{*id, token}, options_.peer_timeout, options_.host});
      const auto timeout =
          std::clamp(hello.start_timeout, std::chrono::milliseconds(0), kLongestWait);
      const TimePoint deadline = entry.last_contact + timeout -
                                 std::clamp(hello.waited, std::chrono::milliseconds(0), timeout);
      if (!start_deadline_ || deadline < *start_deadline_) {
        start_deadline_ = deadline;
        start_timeout_ = timeout;
      }
      entries_.emplace(*id, std::move(entry));
      if (entries_.size() == static_cast<std::size_t>(world_size_)) begin_run();
      wake_before(deadline);
    }
  }
  outbox_.deliver();
  return id;
}

std::optional<MembershipEnd> RendezvousState::refusal(const Hello& hello) const {
  const auto refuse = [](ErrorCode code, const std::string& text) {
    return MembershipEnd{.error = Error(code, text)};
  };
  if (hello.protocol != kProtocolVersion) {
    return refuse(
        ErrorCode::kFailedPrecondition,
        base::str_cat(hello.member, " speaks version ", hello.protocol,
                      " of the rendezvous protocol, the rendezvous in ", options_.host, " version ",
                      kProtocolVersion, ": start the same build of the program everywhere."));
  }
  if (is_closed_ || hello.generation > generation_) {
    MembershipEnd later =
        refuse(ErrorCode::kUnavailable,
               base::str_cat(hello.member, " belongs to generation ", hello.generation,
                             "; the rendezvous in ", options_.host, " still serves generation ",
                             generation_, is_closed_ ? " and is closing." : "."));
    later.may_retry = true;
    return later;
  }
  if (hello.generation < generation_) {
    return refuse(ErrorCode::kAborted,
                  base::str_cat(hello.member, " belongs to generation ", hello.generation,
                                ", which has ended; the rendezvous in ", options_.host,
                                " serves generation ", generation_, "."));
  }
  if (hello.world_size != world_size_) {
    return refuse(ErrorCode::kFailedPrecondition,
                  base::str_cat(hello.member, " says that ", hello.world_size,
                                " processes train together; the rendezvous in ", options_.host,
                                " expects ", world_size_, ": give all the same configuration."));
  }
  if (auto refused = rank_refusal(hello)) return refused;
  return start_failure_;
}

std::optional<MembershipEnd> RendezvousState::rank_refusal(const Hello& hello) const {
  const int rank = hello.member.rank;
  if (rank < 0 || rank >= world_size_) {
    return MembershipEnd{.error = Error(ErrorCode::kFailedPrecondition, hello.member,
                                        " has no rank from 0 to ", world_size_ - 1, ".")};
  }
  for (const auto& [id, entry] : entries_) {
    if (entry.member.rank != rank) continue;
    const bool is_present = entry.presence == Entry::Presence::kPresent;
    if (!is_present && start_failure_) continue;
    return MembershipEnd{
        .error = Error(ErrorCode::kFailedPrecondition, "Two processes claim rank ", rank, ": ",
                       entry.member, is_present ? " is a member" : " was a member and is gone",
                       "; ", hello.member, " joined later and is refused."),
        .rank_holder = is_present ? RankHolder::kPresent : RankHolder::kGone};
  }
  return std::nullopt;
}

void RendezvousState::begin_run() {
  is_started_ = true;
  start_deadline_.reset();
  AllJoined joined;
  for (const auto& [id, entry] : entries_) joined.members.push_back(entry.member);
  std::ranges::sort(joined.members, {}, &cluster::Member::rank);
  for (const auto& [id, entry] : entries_) notify(entry, joined);
  if (options_.on_all_joined) {
    outbox_.post([call = options_.on_all_joined, now = generation_] { call(now); });
  }
}

void RendezvousState::fail_start(const MembershipEnd& ending) {
  start_failure_ = ending;
  start_deadline_.reset();
  for (auto& [id, entry] : entries_) {
    if (entry.presence != Entry::Presence::kPresent) continue;
    entry.presence = Entry::Presence::kLeft;
    notify_end(entry, ending);
  }
  fail_waiting(any, [&](const PendingCall&) { return *ending.error; });
}

void RendezvousState::time_out_start() {
  const std::vector<int> missing = missing_ranks();
  MembershipEnd ending{.missing = missing, .waited = start_timeout_};
  ending.error = Error(ErrorCode::kDeadlineExceeded, missing.size(), " of ", world_size_,
                       " processes did not join within ", in_seconds(start_timeout_), ": rank ",
                       base::listed(missing, ", rank "), ".");
  fail_start(ending);
}

void RendezvousState::heartbeat(MemberId id) {
  {
    const concurrency::MutexLock lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.presence != Entry::Presence::kPresent) return;
    it->second.last_contact = clock_.now();
    notify(it->second, is_started_ ? HeartbeatReply{} : HeartbeatReply{missing_ranks()});
  }
  outbox_.deliver();
}

void RendezvousState::leave(MemberId id) {
  {
    const concurrency::MutexLock lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.presence != Entry::Presence::kPresent) return;
    Entry& entry = it->second;
    entry.presence = Entry::Presence::kLeft;
    if (options_.on_left)
      outbox_.post(
          [call = options_.on_left, who = entry.member, now = generation_] { call(who, now); });
    notify_end(entry, {});
    const auto has_left = [&](const PendingCall& waiting) {
      return Error(ErrorCode::kUnavailable, entry.member, " has left; ", waiting.what,
                   " is given up.");
    };
    fail_waiting([&](const PendingCall& waiting) { return waiting.member == id; }, has_left);
    fail(barrier_waits_, any, has_left);
    if (num_present() <= 1)
      fail(key_waits_, any, has_left);  // no other member is left that could set them
    if (!is_started_) {
      fail_start({.error = Error(ErrorCode::kUnavailable, entry.member,
                                 " left before all had joined; the start is given up.")});
    }
  }
  outbox_.deliver();
}

void RendezvousState::disconnect(MemberId id) {
  {
    const concurrency::MutexLock lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.presence != Entry::Presence::kPresent) return;
    lose(it->second, cluster::LossKind::kClosed, "its connection was closed");
  }
  outbox_.deliver();
}

void RendezvousState::lose(Entry& entry, cluster::LossKind kind, const std::string& reason) {
  const cluster::LostMember lost{entry.member, reason, kind};
  if (!lost_) lost_ = lost;
  for (const auto& [id, other] : entries_) {
    if (other.presence == Entry::Presence::kPresent) notify(other, lost);
  }
  entry.presence = Entry::Presence::kLost;
  notify_end(entry,
             {.error = Error(ErrorCode::kUnavailable, lost, "; the others continue without it.")});
  if (options_.on_lost)
    outbox_.post([call = options_.on_lost, lost, now = generation_] { call(lost, now); });
  fail_waiting(any,
               [&](const PendingCall& waiting) { return cluster::lost_error(lost, waiting.what); });
  if (!is_started_ && !start_failure_)
    fail_start({.error = cluster::lost_error(lost, "the start")});
}

void RendezvousState::begin_generation(int generation, int world_size) {
  check_argument(world_size >= 1, "A generation needs a world_size of 1 or more.");
  {
    const concurrency::MutexLock lock(mutex_);
    check_state(generation > generation_, "Generation ", generation, " cannot follow generation ",
                generation_, ": generations only rise.");
    const Error over(ErrorCode::kAborted,
                     base::str_cat("Generation ", generation_, " has ended; generation ",
                                   generation, " begins."));
    end_all({.error = over}, over);
    generation_ = generation;
    world_size_ = world_size;
    entries_.clear();
    keys_.clear();
    key_waits_.clear();
    barrier_waits_.clear();
    passed_barriers_.clear();
    is_started_ = false;
    lost_.reset();
    start_failure_.reset();
    start_deadline_.reset();
  }
  outbox_.deliver();
}

void RendezvousState::close() {
  {
    const concurrency::MutexLock lock(mutex_);
    is_closed_ = true;
    end_all({}, Error(ErrorCode::kUnavailable, options_.host,
                      ", which served the rendezvous, has left."));
  }
  outbox_.deliver();
}

void RendezvousState::end_all(const MembershipEnd& ending, const Error& for_waiting) {
  fail_waiting(any, [&](const PendingCall&) { return for_waiting; });
  for (auto& [id, entry] : entries_) {
    if (entry.presence != Entry::Presence::kPresent) continue;
    entry.presence = Entry::Presence::kLeft;
    notify_end(entry, ending);
  }
  start_deadline_.reset();
}

TimePoint RendezvousState::tick() {
  TimePoint next;
  {
    const concurrency::MutexLock lock(mutex_);
    const TimePoint now = clock_.now();
    excuse_own_stall(now);
    last_tick_ = now;
    lose_silent_members(now);
    if (start_deadline_ && *start_deadline_ <= now) time_out_start();
    time_out_calls(now);
    next = now + options_.peer_timeout / 4;
    for (const auto& deadline :
         {start_deadline_, key_waits_.next_deadline(), barrier_waits_.next_deadline()}) {
      if (deadline) next = std::min(next, *deadline);
    }
    next_tick_ = next;
  }
  outbox_.deliver();
  return next;
}

void RendezvousState::excuse_own_stall(TimePoint now) {
  const auto late = now - last_tick_;
  if (late <= options_.peer_timeout / 2) return;
  for (auto& [id, entry] : entries_) {
    entry.last_contact = std::min(now, entry.last_contact + late);
    const bool is_own = entry.member.rank == options_.host.rank;
    if (is_own && late > options_.peer_timeout && entry.presence == Entry::Presence::kPresent) {
      const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(late);
      lose(entry, cluster::LossKind::kSilent,
           base::str_cat("its process stalled for ", in_seconds(time)));
    }
  }
}

void RendezvousState::lose_silent_members(TimePoint now) {
  for (auto& [id, entry] : entries_) {
    const bool is_silent = now - entry.last_contact > options_.peer_timeout;
    if (is_silent && entry.presence == Entry::Presence::kPresent) {
      lose(entry, cluster::LossKind::kSilent,
           base::str_cat("it has not been heard from for ", in_seconds(options_.peer_timeout)));
    }
  }
}

std::size_t RendezvousState::num_present() const {
  return static_cast<std::size_t>(std::ranges::count_if(entries_, [](const auto& entry) {
    return entry.second.presence == Entry::Presence::kPresent;
  }));
}

std::vector<int> RendezvousState::missing_ranks() const {
  std::set<int> missing;
  for (int rank = 0; rank < world_size_; ++rank) missing.insert(rank);
  for (const auto& [id, entry] : entries_) missing.erase(entry.member.rank);
  return {missing.begin(), missing.end()};
}

void RendezvousState::notify(const Entry& entry, const RendezvousEvent& event) {
  outbox_.post([listener = entry.listener, event] { listener->on_event(event); });
}

void RendezvousState::notify_end(const Entry& entry, const MembershipEnd& ending) {
  outbox_.post([listener = entry.listener, ending] { listener->on_end(ending); });
}

void RendezvousState::wake_before(TimePoint deadline) {
  if (deadline < next_tick_ && options_.on_earlier_deadline) {
    outbox_.post(options_.on_earlier_deadline);
  }
}

}  // namespace brigade::rpc

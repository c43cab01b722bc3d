#include "brigade/rpc/rendezvous_state.h"

#include <algorithm>
#include <set>
#include <utility>

#include "brigade/base/strings.h"

namespace brigade::rpc {
namespace {

constexpr std::size_t kLargestKey = 4096;
constexpr std::size_t kLargestValue = std::size_t{16} << 20;
// Far enough for every wait, near enough to be added to a time.
constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);

void check_sizes(std::string_view key, std::string_view value) {
  if (key.size() > kLargestKey || value.size() > kLargestValue) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("The key store is for small things: keys up to ", kLargestKey,
                              " bytes and values up to ", base::human_bytes(kLargestValue),
                              "; got ", key.size(), " and ", value.size(), " bytes under '",
                              key.substr(0, 80), "'."));
  }
}

std::string key_text(std::string_view key) {
  return base::str_cat("key '", key, "'");
}

bool any(const Waiting&) {
  return true;
}

Error lost_error(const cluster::LostMember& lost, std::string_view what) {
  return Error(ErrorCode::kUnavailable, base::str_cat(lost, "; ", what, " is given up."));
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
    Entry entry{.member = hello.member, .listener = std::move(listener), .heard_at = clock_.now()};
    if (const auto refused = refusal(hello)) {
      tell_end(entry, *refused);
    } else {
      id = ++last_id_;
      tell(entry, Welcome{*id, options_.peer_timeout, options_.host});
      const auto timeout =
          std::clamp(hello.start_timeout, std::chrono::milliseconds(0), kLongestWait);
      const TimePoint deadline = entry.heard_at + timeout -
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

std::optional<Ending> RendezvousState::refusal(const Hello& hello) const {
  const auto refuse = [](ErrorCode code, const std::string& text) {
    return Ending{.error = Error(code, text)};
  };
  if (hello.protocol != kProtocolVersion) {
    return refuse(ErrorCode::kFailedPrecondition,
                  base::str_cat(hello.member, " speaks version ", hello.protocol,
                                " of the rendezvous protocol, the meeting point in ", options_.host,
                                " version ", kProtocolVersion,
                                ": start the same build of the program everywhere."));
  }
  if (is_closed_ || hello.generation > generation_) {
    Ending later =
        refuse(ErrorCode::kUnavailable,
               base::str_cat(hello.member, " belongs to generation ", hello.generation,
                             "; the meeting point in ", options_.host, " still serves generation ",
                             generation_, is_closed_ ? " and is closing." : "."));
    later.may_retry = true;
    return later;
  }
  if (hello.generation < generation_) {
    return refuse(ErrorCode::kAborted,
                  base::str_cat(hello.member, " belongs to generation ", hello.generation,
                                ", which has ended; the meeting point in ", options_.host,
                                " serves generation ", generation_, "."));
  }
  if (hello.world_size != world_size_) {
    return refuse(ErrorCode::kFailedPrecondition,
                  base::str_cat(hello.member, " says that ", hello.world_size,
                                " processes train together; the meeting point in ", options_.host,
                                " expects ", world_size_, ": give all the same configuration."));
  }
  if (auto refused = rank_refusal(hello)) return refused;
  return start_failure_;
}

std::optional<Ending> RendezvousState::rank_refusal(const Hello& hello) const {
  const int rank = hello.member.rank;
  if (rank < 0 || rank >= world_size_) {
    return Ending{.error = Error(ErrorCode::kFailedPrecondition,
                                 base::str_cat(hello.member, " has no rank from 0 to ",
                                               world_size_ - 1, "."))};
  }
  for (const auto& [id, entry] : entries_) {
    if (entry.member.rank != rank) continue;
    const bool is_there = entry.presence == Entry::Presence::kPresent;
    if (!is_there && start_failure_) continue;
    return Ending{.error =
                      Error(ErrorCode::kFailedPrecondition,
                            base::str_cat("Two processes claim rank ", rank, ": ", entry.member,
                                          is_there ? " is a member" : " was a member, and is gone",
                                          "; ", hello.member, " came later and is refused."))};
  }
  return std::nullopt;
}

void RendezvousState::begin_run() {
  is_started_ = true;
  start_deadline_.reset();
  AllJoined joined;
  for (const auto& [id, entry] : entries_) joined.members.push_back(entry.member);
  std::ranges::sort(joined.members, {}, &cluster::Member::rank);
  for (const auto& [id, entry] : entries_) tell(entry, joined);
  if (options_.on_all_joined) outbox_.post(options_.on_all_joined);
}

void RendezvousState::fail_start(const Ending& ending) {
  start_failure_ = ending;
  start_deadline_.reset();
  for (auto& [id, entry] : entries_) {
    if (entry.presence != Entry::Presence::kPresent) continue;
    entry.presence = Entry::Presence::kLeft;
    tell_end(entry, ending);
  }
  fail_waiting(any, [&](const Waiting&) { return *ending.error; });
}

void RendezvousState::time_out_start() {
  const std::vector<int> missing = missing_ranks();
  Ending ending{.missing = missing, .waited = start_timeout_};
  ending.error = Error(
      ErrorCode::kDeadlineExceeded,
      base::str_cat(missing.size(), " of ", world_size_, " processes did not come within ",
                    in_seconds(start_timeout_), ": rank ", base::join(missing, ", rank "), "."));
  fail_start(ending);
}

void RendezvousState::beat(MemberId id) {
  {
    const concurrency::MutexLock lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.presence != Entry::Presence::kPresent) return;
    it->second.heard_at = clock_.now();
    tell(it->second, is_started_ ? Heard{} : Heard{missing_ranks()});
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
    tell_end(entry, {});
    const auto has_left = [&](const Waiting& waiting) {
      return Error(ErrorCode::kUnavailable,
                   base::str_cat(entry.member, " has left; ", waiting.what, " is given up."));
    };
    fail_waiting([&](const Waiting& waiting) { return waiting.member == id; }, has_left);
    fail_barriers(any, has_left);
    if (num_present() <= 1) fail_keys(any, has_left);  // nobody is there who could set them
    if (!is_started_) {
      fail_start(
          {.error = Error(ErrorCode::kUnavailable, base::str_cat(entry.member,
                                                                 " left before everybody had come; "
                                                                 "the start is given up."))});
    }
  }
  outbox_.deliver();
}

void RendezvousState::disconnect(MemberId id) {
  {
    const concurrency::MutexLock lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.presence != Entry::Presence::kPresent) return;
    lose(it->second, "its connection was closed");
  }
  outbox_.deliver();
}

void RendezvousState::lose(Entry& entry, const std::string& reason) {
  const cluster::LostMember lost{entry.member, reason};
  if (!lost_) lost_ = lost;
  for (const auto& [id, other] : entries_) {
    if (other.presence == Entry::Presence::kPresent) tell(other, lost);
  }
  entry.presence = Entry::Presence::kLost;
  tell_end(entry, {.error = Error(ErrorCode::kUnavailable,
                                  base::str_cat(lost, "; the others go on without it."))});
  if (options_.on_lost) outbox_.post([call = options_.on_lost, lost] { call(lost); });
  fail_waiting(any, [&](const Waiting& waiting) { return lost_error(lost, waiting.what); });
  if (!is_started_ && !start_failure_) fail_start({.error = lost_error(lost, "the start")});
}

void RendezvousState::set(MemberId id, std::string_view key, std::string_view value) {
  check_sizes(key, value);
  {
    const concurrency::MutexLock lock(mutex_);
    require_present(id);
    answer(keys_.set(key, value), {.value = std::string(value)});
  }
  outbox_.deliver();
}

std::int64_t RendezvousState::add(MemberId id, std::string_view key, std::int64_t delta) {
  check_sizes(key, "");
  std::int64_t sum = 0;
  {
    const concurrency::MutexLock lock(mutex_);
    require_present(id);
    const auto added = keys_.add(key, delta);
    answer(added.released, {.value = base::str_cat(added.sum)});
    sum = added.sum;
  }
  outbox_.deliver();
  return sum;
}

void RendezvousState::get(MemberId id, std::string_view key, std::chrono::milliseconds timeout,
                          Reply reply) {
  {
    const concurrency::MutexLock lock(mutex_);
    Waiting call = waiting_call(id, key_text(key), timeout, std::move(reply));
    try {
      require_present(id);
      if (auto value = keys_.find(key)) {
        answer({call}, {.value = std::move(*value)});
      } else {
        if (lost_) throw lost_error(*lost_, call.what);
        wake_before(call.deadline);
        keys_.wait_for(key, std::move(call));
      }
    } catch (const Error& error) {
      answer({call}, {.error = error});
    }
  }
  outbox_.deliver();
}

void RendezvousState::barrier(MemberId id, std::string_view name, std::chrono::milliseconds timeout,
                              Reply reply) {
  {
    const concurrency::MutexLock lock(mutex_);
    const Waiting call = waiting_call(id, barrier_text(name), timeout, std::move(reply));
    try {
      require_present(id);
      require_nobody_gone(call.what);
      wake_before(call.deadline);
      answer(barriers_.arrive(name, call, static_cast<std::size_t>(world_size_)), {});
    } catch (const Error& error) {
      answer({call}, {.error = error});
    }
  }
  outbox_.deliver();
}

void RendezvousState::begin_generation(int generation, int world_size) {
  check_argument(world_size >= 1, "A generation needs a world_size of 1 or more.");
  {
    const concurrency::MutexLock lock(mutex_);
    check_state(generation > generation_,
                base::str_cat("Generation ", generation, " cannot follow generation ", generation_,
                              ": generations only rise."));
    const Error over(ErrorCode::kAborted,
                     base::str_cat("Generation ", generation_, " has ended; generation ",
                                   generation, " begins."));
    end_all({.error = over}, over);
    generation_ = generation;
    world_size_ = world_size;
    entries_.clear();
    keys_.clear();
    barriers_.clear();
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
    end_all({}, Error(ErrorCode::kUnavailable,
                      base::str_cat(options_.host, ", where the meeting point was, has left.")));
  }
  outbox_.deliver();
}

void RendezvousState::end_all(const Ending& ending, const Error& for_waiting) {
  fail_waiting(any, [&](const Waiting&) { return for_waiting; });
  for (auto& [id, entry] : entries_) {
    if (entry.presence != Entry::Presence::kPresent) continue;
    entry.presence = Entry::Presence::kLeft;
    tell_end(entry, ending);
  }
  start_deadline_.reset();
}

TimePoint RendezvousState::tick() {
  TimePoint next;
  {
    const concurrency::MutexLock lock(mutex_);
    const TimePoint now = clock_.now();
    forgive_own_standstill(now);
    last_tick_ = now;
    lose_silent_members(now);
    if (start_deadline_ && *start_deadline_ <= now) time_out_start();
    const auto is_late = [&](const Waiting& waiting) { return waiting.deadline <= now; };
    fail_keys(is_late, [](const Waiting& waiting) {
      return Error(ErrorCode::kDeadlineExceeded,
                   base::str_cat("No member has set ", waiting.what, " within ",
                                 in_seconds(waiting.timeout), "."));
    });
    fail_barriers(is_late, [before = barriers_, entries = entries_](const Waiting& waiting) {
      std::vector<std::string> missing;
      const auto arrived = before.arrived(waiting.what);
      for (const auto& [id, entry] : entries) {
        if (!arrived.contains(id)) missing.push_back(cluster::to_string(entry.member));
      }
      return Error(ErrorCode::kDeadlineExceeded,
                   base::str_cat("Not all members have come to ", waiting.what, " within ",
                                 in_seconds(waiting.timeout),
                                 "; missing: ", base::join(missing, ", "), "."));
    });
    next = now + options_.peer_timeout / 4;
    for (const auto& deadline :
         {start_deadline_, keys_.next_deadline(), barriers_.next_deadline()}) {
      if (deadline) next = std::min(next, *deadline);
    }
    next_tick_ = next;
  }
  outbox_.deliver();
  return next;
}

void RendezvousState::forgive_own_standstill(TimePoint now) {
  const auto late = now - last_tick_;
  if (late <= options_.peer_timeout / 2) return;
  for (auto& [id, entry] : entries_) {
    entry.heard_at = std::min(now, entry.heard_at + late);
    const bool is_own = entry.member.rank == options_.host.rank;
    if (is_own && late > options_.peer_timeout && entry.presence == Entry::Presence::kPresent) {
      const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(late);
      lose(entry, base::str_cat("its process stood still for ", in_seconds(time)));
    }
  }
}

void RendezvousState::lose_silent_members(TimePoint now) {
  for (auto& [id, entry] : entries_) {
    const bool is_silent = now - entry.heard_at > options_.peer_timeout;
    if (is_silent && entry.presence == Entry::Presence::kPresent) {
      lose(entry,
           base::str_cat("it has not been heard of for ", in_seconds(options_.peer_timeout)));
    }
  }
}

void RendezvousState::require_present(MemberId id) const {
  const auto it = entries_.find(id);
  if (it == entries_.end()) {
    throw Error(ErrorCode::kAborted,
                base::str_cat("This process's generation has ended; the meeting point serves "
                              "generation ",
                              generation_, "."));
  }
  if (it->second.presence == Entry::Presence::kLost) throw lost_error(*lost_, "the call");
  check_state(it->second.presence == Entry::Presence::kPresent,
              "This process has left its membership.");
}

void RendezvousState::require_nobody_gone(std::string_view what) const {
  if (lost_) throw lost_error(*lost_, what);
  for (const auto& [id, entry] : entries_) {
    if (entry.presence == Entry::Presence::kPresent) continue;
    throw Error(ErrorCode::kUnavailable, base::str_cat(entry.member,
                                                       " has left and will not come "
                                                       "to ",
                                                       what, "."));
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

Waiting RendezvousState::waiting_call(MemberId id, std::string what,
                                      std::chrono::milliseconds timeout, Reply reply) {
  const auto wait = std::clamp(timeout, std::chrono::milliseconds(0), kLongestWait);
  return {id, std::move(what), wait, clock_.now() + wait, std::move(reply)};
}

void RendezvousState::tell(const Entry& entry, const Event& event) {
  outbox_.post([listener = entry.listener, event] { listener->on_event(event); });
}

void RendezvousState::tell_end(const Entry& entry, const Ending& ending) {
  outbox_.post([listener = entry.listener, ending] { listener->on_end(ending); });
}

void RendezvousState::answer(const std::vector<Waiting>& calls, const Outcome& outcome) {
  for (const Waiting& call : calls) {
    outbox_.post([reply = call.reply, outcome] { reply(outcome); });
  }
}

void RendezvousState::fail_waiting(const IsOver& is_over, const ErrorFor& error) {
  fail_keys(is_over, error);
  fail_barriers(is_over, error);
}

void RendezvousState::fail_keys(const IsOver& is_over, const ErrorFor& error) {
  for (const Waiting& call : keys_.take_if(is_over)) answer({call}, {.error = error(call)});
}

void RendezvousState::fail_barriers(const IsOver& is_over, const ErrorFor& error) {
  for (const Waiting& call : barriers_.take_if(is_over)) answer({call}, {.error = error(call)});
}

void RendezvousState::wake_before(TimePoint deadline) {
  if (deadline < next_tick_ && options_.on_earlier_deadline) {
    outbox_.post(options_.on_earlier_deadline);
  }
}

}  // namespace brigade::rpc

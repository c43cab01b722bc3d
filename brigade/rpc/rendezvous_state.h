#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "brigade/base/clock.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/key_store.h"
#include "brigade/rpc/outbox.h"
#include "brigade/rpc/pending_calls.h"
#include "brigade/rpc/protocol.h"

namespace brigade::rpc {

struct RendezvousStateOptions {
  int world_size = 1;
  int generation = 0;
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(8);
  /// The process that serves the rendezvous.
  cluster::Member host = {};
  /// Called without a lock for each lost member. Must not block.
  std::function<void(const cluster::LostMember&, int generation)> on_lost = {};
  /// Likewise for each member that leaves as planned.
  std::function<void(const cluster::Member&, int generation)> on_left = {};
  /// Called without a lock when all members of a generation have joined. Must not block.
  std::function<void(int generation)> on_all_joined = {};
  /// Called without a lock when `tick` is due earlier than it returned last.
  std::function<void()> on_earlier_deadline = {};
};

/// The state of a job's rendezvous: members, keys, barriers, deadlines. It neither waits nor has
/// threads: a call that must wait is answered later through its `Reply`, by the call that provides
/// the answer, or by `tick` at its deadline. So tests need neither sockets nor real time.
///
/// Thread-safety: all functions from any thread. Replies and listeners are called without a lock,
/// in the order of the events.
class RendezvousState {
 public:
  /// The clock must outlive the state.
  RendezvousState(RendezvousStateOptions options, const base::Clock& clock);

  /// Accepts a process, or refuses it: then the listener's `on_end` gets the reason, and nothing is
  /// returned.
  std::optional<MemberId> join(const Hello& hello, std::shared_ptr<Listener> listener);
  void heartbeat(MemberId id);
  /// The member ends as planned.
  void leave(MemberId id);
  /// The member's connection broke. It is lost unless it has left.
  void disconnect(MemberId id);

  /// These throw kPermissionDenied, and change nothing, without the token that the member got in
  /// `Welcome`; kUnavailable for a lost member, kAborted for a member of an earlier generation,
  /// kInvalidArgument for keys and values that are too large.
  void set(const Credential& caller, std::string_view key, std::string_view value);
  std::int64_t add(const Credential& caller, std::string_view key, std::int64_t delta);
  std::int64_t append(const Credential& caller, std::string_view key, std::string_view value);

  /// These answer, now or later, and never throw.
  void get(const Credential& caller, std::string_view key, std::chrono::milliseconds timeout,
           Reply reply);
  void barrier(const Credential& caller, std::string_view name, std::chrono::milliseconds timeout,
               Reply reply);

  /// The number of calls that were refused because of a wrong token.
  std::int64_t num_refused_calls();

  void begin_generation(int generation, int world_size);
  /// Ends all memberships as planned.
  void close();

  /// Handles everything that is due by now: lost members and deadlines. Returns when it is due
  /// next. If a `tick` comes much too late, this process itself was stalled, and silent members are
  /// excused.
  TimePoint tick();

 private:
  struct Entry {
    cluster::Member member;
    std::shared_ptr<Listener> listener;
    TimePoint last_contact;
    enum class Presence { kPresent, kLeft, kLost } presence = Presence::kPresent;
  };
  using IsOver = std::function<bool(const PendingCall&)>;
  using ErrorFor = std::function<Error(const PendingCall&)>;

  std::optional<MembershipEnd> refusal(const Hello& hello) const BRIGADE_REQUIRES(mutex_);
  std::optional<MembershipEnd> rank_refusal(const Hello& hello) const BRIGADE_REQUIRES(mutex_);
  void begin_run() BRIGADE_REQUIRES(mutex_);
  void fail_start(const MembershipEnd& ending) BRIGADE_REQUIRES(mutex_);
  void time_out_start() BRIGADE_REQUIRES(mutex_);
  void lose(Entry& entry, cluster::LossKind kind, const std::string& reason)
      BRIGADE_REQUIRES(mutex_);
  void lose_silent_members(TimePoint now) BRIGADE_REQUIRES(mutex_);
  void excuse_own_stall(TimePoint now) BRIGADE_REQUIRES(mutex_);
  void end_all(const MembershipEnd& ending, const Error& for_waiting) BRIGADE_REQUIRES(mutex_);
  void require_member(const Credential& caller) BRIGADE_REQUIRES(mutex_);
  void require_other_members(std::string_view what) const BRIGADE_REQUIRES(mutex_);
  void require_all_present(std::string_view what) const BRIGADE_REQUIRES(mutex_);
  std::size_t num_present() const BRIGADE_REQUIRES(mutex_);
  std::vector<int> missing_ranks() const BRIGADE_REQUIRES(mutex_);
  void arrive(const PendingCall& call) BRIGADE_REQUIRES(mutex_);
  PendingCall waiting_call(MemberId id, std::string what, std::chrono::milliseconds timeout,
                           Reply reply) BRIGADE_REQUIRES(mutex_);

  void notify(const Entry& entry, const RendezvousEvent& event) BRIGADE_REQUIRES(mutex_);
  void notify_end(const Entry& entry, const MembershipEnd& ending) BRIGADE_REQUIRES(mutex_);
  void answer(const std::vector<PendingCall>& calls, const CallResult& result)
      BRIGADE_REQUIRES(mutex_);
  void time_out_calls(TimePoint now) BRIGADE_REQUIRES(mutex_);
  void fail(PendingCalls& calls, const IsOver& is_over, const ErrorFor& error)
      BRIGADE_REQUIRES(mutex_);
  void fail_waiting(const IsOver& is_over, const ErrorFor& error) BRIGADE_REQUIRES(mutex_);
  void wake_before(TimePoint deadline) BRIGADE_REQUIRES(mutex_);

  const RendezvousStateOptions options_;
  const base::Clock& clock_;
  Outbox outbox_;
  concurrency::Mutex mutex_;
  int world_size_ BRIGADE_GUARDED_BY(mutex_);
  int generation_ BRIGADE_GUARDED_BY(mutex_);
  bool is_closed_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_started_ BRIGADE_GUARDED_BY(mutex_) = false;
  MemberId last_id_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::map<MemberId, Entry> entries_ BRIGADE_GUARDED_BY(mutex_);  // of this generation
  // Of earlier generations too, whose members get the error that theirs has ended.
  std::map<MemberId, std::string> tokens_ BRIGADE_GUARDED_BY(mutex_);
  std::int64_t num_refused_calls_ BRIGADE_GUARDED_BY(mutex_) = 0;
  KeyStore keys_ BRIGADE_GUARDED_BY(mutex_);
  PendingCalls key_waits_ BRIGADE_GUARDED_BY(mutex_);      // by key
  PendingCalls barrier_waits_ BRIGADE_GUARDED_BY(mutex_);  // by the barrier's text, as is the next
  std::set<std::string, std::less<>> passed_barriers_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<cluster::LostMember> lost_ BRIGADE_GUARDED_BY(mutex_);  // the first
  std::optional<MembershipEnd> start_failure_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<TimePoint> start_deadline_ BRIGADE_GUARDED_BY(mutex_);
  std::chrono::milliseconds start_timeout_ BRIGADE_GUARDED_BY(mutex_){0};  // of that deadline
  TimePoint last_tick_ BRIGADE_GUARDED_BY(mutex_);
  TimePoint next_tick_ BRIGADE_GUARDED_BY(mutex_);
};

/// "10 s", "0.25 s".
std::string in_seconds(std::chrono::milliseconds time);

}  // namespace brigade::rpc

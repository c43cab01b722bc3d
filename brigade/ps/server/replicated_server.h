#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "brigade/base/clock.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/coordination/server_pair.h"
#include "brigade/io/file_system.h"
#include "brigade/ps/forwarding_service.h"
#include "brigade/ps/paired_service.h"
#include "brigade/ps/server/follower_store.h"
#include "brigade/ps/server/server_core.h"
#include "brigade/ps/server/state_transfer.h"
#include "brigade/ps/store/record_feed.h"

namespace brigade::ps {

struct ReplicatedServerOptions {
  /// Of the server, while this process acts. It holds `core.store.folder` alone.
  ServerCoreOptions core;
  std::string name;  ///< "/job:ps/task:0", for the log
  /// The one of the two processes that begins a job.
  bool is_first = true;
  /// A connection to the other process.
  std::function<std::unique_ptr<PairedService>()> connect;
  /// `coordination::ServerPair::Options::term`.
  std::chrono::milliseconds term = std::chrono::seconds(4);
  /// The most that one message has of the state, or of several records.
  std::uint64_t part_bytes = std::uint64_t{16} << 20;
  /// The records that are kept in memory for a replica that catches up.
  std::uint64_t feed_bytes = std::uint64_t{1} << 30;
};

/// One of the two processes of a replicated parameter server, without its network. It serves
/// clients while it acts; otherwise it follows the other one, with the same variables in memory and
/// on its own disk.
///
/// While a follower is complete, each call returns once the follower, too, has its change on the
/// disk. So whichever process, or disk, is lost, the other one has all that was acknowledged.
///
/// Thread-safety: all functions from any thread. It has one thread, which calls the other process,
/// and changes the role.
class ReplicatedServer final : public ForwardingService<PairedService> {
 public:
  /// Opens the store, as ParameterStore. `clock` must outlive this.
  ReplicatedServer(std::shared_ptr<io::FileSystem> files, ReplicatedServerOptions options,
                   const base::Clock& clock);
  /// Waits for calls in progress.
  ~ReplicatedServer() override;

  RoleReply role(Time deadline) override;
  coordination::PairStatus vote(const Vote& vote, Time deadline) override;
  FollowReply follow(const std::string& token, const FollowRequest& request,
                     Time deadline) override;
  void close() override;

  /// As ServerCore's; nothing unless it acts.
  void tick();
  std::optional<Time> next_expiry() const;
  ServerStatus status() const;
  ServerCounters counters() const;
  ServerMetrics metrics() const;
  /// Whether the job is over: the one that acts knows it, and the other one has learned of it.
  bool is_finished() const;
  /// As ServerCore's; also while it follows.
  std::optional<std::string> failure() const;
  /// Whether it acts with a replica that could act in its place: that has all that it acknowledged,
  /// and knows it.
  bool is_paired() const;

 private:
  using PairRole = coordination::PairRole;
  using PairStatus = coordination::PairStatus;
  using ServerPair = coordination::ServerPair;
  using milliseconds = std::chrono::milliseconds;

  /// Keeps the server that acts from being taken away while it is called.
  class Running {
   public:
    explicit Running(const ReplicatedServer& server) : server_(server) {
      const concurrency::MutexLock lock(server_.mutex_);
      core_ = server_.serving_;
      ++server_.running_;
    }
    ~Running() {
      const concurrency::MutexLock lock(server_.mutex_);
      if (--server_.running_ == 0) server_.idle_.notify_all();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ServerCore* core() const { return core_; }
    /// Throws kUnavailable unless the process acts.
    ServerCore& acting() const;

   private:
    const ReplicatedServer& server_;
    ServerCore* core_ = nullptr;
  };

  /// The other process, as one that follows this one.
  struct Follower {
    std::string life;
    std::int64_t number = 0;  // of its last call
    Time last_contact;
    bool is_complete = false;  // and knows it
    std::shared_ptr<const StateTransfer> state;
    std::optional<Time> knows_end_since;
  };

  FollowerStoreOptions follower_options() {
    ParameterStoreOptions store = options_.core.store;
    store.feed = feed_;
    return {.store = std::move(store), .snapshot_after_bytes = options_.core.snapshot_after_bytes};
  }

  void forward(ServiceMethod, Time, const Call& call) override { call(Running(*this).acting()); }
  /// What `function(core)` returns of the server that acts, or `otherwise` if this one does not.
  template <class Function, class Result>
  Result serve_or(Result otherwise, const Function& function) const BRIGADE_EXCLUDES(mutex_) {
    const Running running(*this);
    return running.core() == nullptr ? otherwise : function(*running.core());
  }

  PairStatus visible_status() const BRIGADE_REQUIRES(mutex_);
  bool admit_follower(const FollowRequest& request) BRIGADE_REQUIRES(mutex_);
  void collect_state(const FollowRequest& request) BRIGADE_EXCLUDES(collecting_, mutex_);
  FollowReply send_state(FollowReply reply, int part) const BRIGADE_EXCLUDES(mutex_);
  FollowReply send_records(FollowReply reply, const FollowRequest& request, Time deadline)
      BRIGADE_EXCLUDES(mutex_);

  void run() BRIGADE_EXCLUDES(mutex_);
  PairStatus next_status() BRIGADE_EXCLUDES(mutex_);
  void start_acting(std::int64_t epoch) BRIGADE_EXCLUDES(mutex_);
  void stop_acting() BRIGADE_EXCLUDES(mutex_);
  void record_end() BRIGADE_EXCLUDES(mutex_);
  void doubt_follower() BRIGADE_EXCLUDES(mutex_);
  void consider_votes() BRIGADE_EXCLUDES(mutex_);
  void call_other(PairRole role) BRIGADE_EXCLUDES(mutex_);
  std::optional<FollowReply> call_other(const FollowRequest& request, milliseconds allowed);
  void receive(FollowReply reply) BRIGADE_EXCLUDES(mutex_);
  void pause(milliseconds time) BRIGADE_EXCLUDES(mutex_);
  void wake() BRIGADE_REQUIRES(mutex_);
  void fail(const std::exception& error) BRIGADE_EXCLUDES(mutex_);

  const ReplicatedServerOptions options_;
  const base::Clock& clock_;
  const std::shared_ptr<io::FileSystem> files_;
  const std::string follow_token_;
  const std::shared_ptr<RecordFeed> feed_;
  const std::unique_ptr<PairedService> other_;

  // Of the thread.
  FollowerStore store_;               // empty while core_ has it
  std::unique_ptr<ServerCore> core_;  // null unless this process acts
  std::int64_t acting_epoch_ = 0;     // of core_
  std::string other_token_;
  std::int64_t calls_ = 0;
  milliseconds allowed_{0};  // for a call as a follower, beside its wait

  concurrency::Mutex collecting_;  // one state for a follower at a time; taken before mutex_
  mutable concurrency::Mutex mutex_;
  mutable concurrency::Condition idle_;  // running_ is 0
  concurrency::Condition changed_;       // is_awake_
  ServerPair pair_ BRIGADE_GUARDED_BY(mutex_);
  ServerCore* serving_ BRIGADE_GUARDED_BY(mutex_) = nullptr;  // core_, once it may be called
  mutable int running_ BRIGADE_GUARDED_BY(mutex_) = 0;        // calls of serving_
  Follower follower_ BRIGADE_GUARDED_BY(mutex_);
  std::set<std::string> earlier_lives_ BRIGADE_GUARDED_BY(mutex_);       // of followers
  std::optional<std::string> witness_ BRIGADE_GUARDED_BY(mutex_);        // whose vote counts
  bool has_chief_finished_ BRIGADE_GUARDED_BY(mutex_) = false;           // unless it acts
  std::optional<Time> other_finished_since_ BRIGADE_GUARDED_BY(mutex_);  // and acts
  bool has_confirmed_end_ BRIGADE_GUARDED_BY(mutex_) = false;            // to that one
  std::optional<Time> over_since_ BRIGADE_GUARDED_BY(mutex_);            // the job, for core_
  std::optional<Time> adrift_since_ BRIGADE_GUARDED_BY(mutex_);          // neither acts nor follows
  std::optional<std::string> failure_ BRIGADE_GUARDED_BY(mutex_);
  bool is_awake_ BRIGADE_GUARDED_BY(mutex_) = false;  // the thread looks at its role
  bool is_closed_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace brigade::ps

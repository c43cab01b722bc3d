#include "brigade/ps/server/replicated_server.h"

#include <algorithm>
#include <exception>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/server/follower_store.h"
#include "brigade/ps/server/server_epoch.h"
#include "brigade/ps/server/state_transfer.h"
#include "brigade/ps/store/record_feed.h"
#include "brigade/rpc/token.h"

namespace brigade::ps {
namespace {

using coordination::PairRole;
using coordination::PairStatus;
using coordination::ServerPair;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Between two calls of one that does not follow.
constexpr milliseconds kPause{20};
constexpr milliseconds kShortCall{500};
constexpr milliseconds kLongestCall{60'000};
// For the answer that the job is over to arrive.
constexpr milliseconds kTimeToTell{300};
// In which one that does not act, and cannot, ends when the chief has finished.
constexpr int kTermsAdrift = 3;

std::string new_life() {
  const std::string token = rpc::make_token();
  return base::to_hex(std::as_bytes(std::span(token)).first(8));
}

}  // namespace

class ReplicatedServer::Impl {
 public:
  Impl(std::shared_ptr<io::FileSystem> files, ReplicatedServerOptions options,
       const base::Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        files_(std::move(files)),
        follow_token_(rpc::make_token()),
        feed_(std::make_shared<RecordFeed>(options_.feed_bytes)),
        other_(options_.connect()),
        store_(files_, follower_options()),
        pair_({.life = new_life(), .is_first = options_.is_first, .term = options_.term},
              store_.epoch(), clock_.now()),
        thread_([this] { run(); }) {}
  ~Impl() {
    close();
    thread_.join();
    const concurrency::MutexLock lock(mutex_);
    serving_ = nullptr;
    while (running_ > 0) idle_.wait(mutex_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Calls `function(core)` of the server that acts. Throws kUnavailable if this one does not.
  template <class Function>
  auto serve(const Function& function) const BRIGADE_EXCLUDES(mutex_) {
    const Running running(*this);
    if (running.core() == nullptr)
      throw Error(ErrorCode::kUnavailable,
                  base::str_cat("This process of the parameter server ", options_.name,
                                " does not act at the moment."));
    return function(*running.core());
  }
  /// The same, but `otherwise` if it does not act.
  template <class Function, class Result>
  Result serve_or(Result otherwise, const Function& function) const BRIGADE_EXCLUDES(mutex_) {
    const Running running(*this);
    return running.core() == nullptr ? otherwise : function(*running.core());
  }

  RoleReply role() const BRIGADE_EXCLUDES(mutex_);
  PairStatus vote(const Vote& vote) BRIGADE_EXCLUDES(mutex_);
  FollowReply follow(const std::string& token, const FollowRequest& request, Time deadline)
      BRIGADE_EXCLUDES(mutex_);
  bool is_finished() const BRIGADE_EXCLUDES(mutex_);
  std::optional<std::string> failure() const BRIGADE_EXCLUDES(mutex_);
  bool is_paired() const BRIGADE_EXCLUDES(mutex_) {
    const concurrency::MutexLock lock(mutex_);
    return serving_ != nullptr && pair_.role() == PairRole::kActing && follower_.is_complete;
  }
  void close() BRIGADE_EXCLUDES(mutex_);

 private:
  /// Keeps the server that acts from being taken away while it is called.
  class Running {
   public:
    explicit Running(const Impl& server) : server_(server) {
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

   private:
    const Impl& server_;
    ServerCore* core_ = nullptr;
  };

  /// The other process, as one that follows this one.
  struct Follower {
    std::string life;
    std::int64_t number = 0;  // of its last call
    Time heard;
    bool is_complete = false;  // and knows it
    std::shared_ptr<const StateTransfer> state;
    std::optional<Time> told_the_end;
  };

  FollowerStoreOptions follower_options() {
    ParameterStoreOptions store = options_.core.store;
    store.feed = feed_;
    return {.store = std::move(store), .snapshot_after_bytes = options_.core.snapshot_after_bytes};
  }

  PairStatus visible_status() const BRIGADE_REQUIRES(mutex_);
  bool admit_follower(const FollowRequest& request) BRIGADE_REQUIRES(mutex_);
  FollowReply send_state(FollowReply reply, int part) BRIGADE_EXCLUDES(mutex_);
  FollowReply send_records(FollowReply reply, const FollowRequest& request, Time deadline)
      BRIGADE_EXCLUDES(mutex_);

  void run() BRIGADE_EXCLUDES(mutex_);
  PairStatus next_status() BRIGADE_EXCLUDES(mutex_);
  void start_acting(std::int64_t epoch) BRIGADE_EXCLUDES(mutex_);
  void stop_acting() BRIGADE_EXCLUDES(mutex_);
  void note_end() BRIGADE_EXCLUDES(mutex_);
  void consider_votes() BRIGADE_EXCLUDES(mutex_);
  void call_other(PairRole role) BRIGADE_EXCLUDES(mutex_);
  std::optional<FollowReply> ask_other(const FollowRequest& request, milliseconds allowed);
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

  mutable concurrency::Mutex mutex_;
  mutable concurrency::Condition idle_;  // running_ is 0
  concurrency::Condition changed_;       // is_awake_
  ServerPair pair_ BRIGADE_GUARDED_BY(mutex_);
  ServerCore* serving_ BRIGADE_GUARDED_BY(mutex_) = nullptr;  // core_, once it may be called
  mutable int running_ BRIGADE_GUARDED_BY(mutex_) = 0;        // calls of serving_
  Follower follower_ BRIGADE_GUARDED_BY(mutex_);
  std::set<std::string> earlier_lives_ BRIGADE_GUARDED_BY(mutex_);  // of followers
  std::optional<std::string> witness_ BRIGADE_GUARDED_BY(mutex_);   // whose vote counts
  bool has_chief_finished_ BRIGADE_GUARDED_BY(mutex_) = false;      // unless it acts
  bool has_other_finished_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::optional<Time> over_since_ BRIGADE_GUARDED_BY(mutex_);    // the job, for core_
  std::optional<Time> adrift_since_ BRIGADE_GUARDED_BY(mutex_);  // neither acts nor follows
  std::optional<std::string> failure_ BRIGADE_GUARDED_BY(mutex_);
  bool is_awake_ BRIGADE_GUARDED_BY(mutex_) = false;  // the thread looks at its role
  bool is_closed_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

/// One that was voted for acts once it serves.
PairStatus ReplicatedServer::Impl::visible_status() const {
  PairStatus status = pair_.status();
  if (status.role == PairRole::kActing && serving_ == nullptr) status.role = PairRole::kLooking;
  return status;
}

RoleReply ReplicatedServer::Impl::role() const {
  const concurrency::MutexLock lock(mutex_);
  return {.status = visible_status(), .follow_token = follow_token_};
}

PairStatus ReplicatedServer::Impl::vote(const Vote& vote) {
  const concurrency::MutexLock lock(mutex_);
  if (pair_.role() == PairRole::kCandidate && witness_ == cluster::to_string(vote.voter) &&
      pair_.vote(vote.epoch))
    wake();
  return visible_status();
}

/// Returns whether this process serves its caller as a follower. Until a follower says itself that
/// it is not complete, acknowledgments wait for it, also when it was started again: it could act.
bool ReplicatedServer::Impl::admit_follower(const FollowRequest& request) {
  if (serving_ == nullptr || pair_.role() != PairRole::kActing) return false;
  const std::string& life = request.from.life;
  const bool is_late =
      life == follower_.life ? request.number <= follower_.number : earlier_lives_.contains(life);
  if (is_late) throw Error(ErrorCode::kUnavailable, "A call of a replica comes after a later one.");
  if (life != follower_.life) {
    if (!follower_.life.empty()) earlier_lives_.insert(follower_.life);
    follower_ = {.life = life};
  }
  follower_.number = request.number;
  follower_.heard = clock_.now();
  if (pair_.is_paired()) pair_.hear_follower(clock_.now());
  return request.from.role == PairRole::kFollowing;
}

FollowReply ReplicatedServer::Impl::follow(const std::string& token, const FollowRequest& request,
                                           Time deadline) {
  if (!rpc::is_same_token(token, follow_token_))
    throw Error(ErrorCode::kPermissionDenied,
                "The caller is not the other process of this parameter server.");
  FollowReply reply;
  const bool is_finished = serve_or(false, [](ServerCore& core) { return core.is_finished(); });
  FollowSource own;
  {
    const concurrency::MutexLock lock(mutex_);
    const PairRole before = pair_.role();
    pair_.hear(request.from, clock_.now());
    if (pair_.role() != before) wake();
    const bool serves = admit_follower(request);
    reply.status = visible_status();
    if (is_finished && reply.status.role == PairRole::kActing) {
      reply.is_finished = true;
      if (!follower_.told_the_end) follower_.told_the_end = clock_.now();
    }
    if (!serves) return reply;
    own = {.life = reply.status.life, .epoch = reply.status.epoch};
    follower_.is_complete = request.source == own && request.from.epoch == own.epoch;
  }
  // One that still counts as complete first writes to its disk that it no longer is.
  const bool is_complete = request.from.epoch >= own.epoch;
  reply.must_fill = request.part ? is_complete : request.source != own;
  if (reply.must_fill) return reply;
  if (request.part) return send_state(std::move(reply), *request.part);
  return send_records(std::move(reply), request, deadline);
}

FollowReply ReplicatedServer::Impl::send_state(FollowReply reply, int part) {
  std::shared_ptr<const StateTransfer> state;
  if (part == 0) {
    // Nobody waits any longer for one that is to be filled: a creation that did would hold up its
    // state. Records that follow that state are kept.
    feed_->drop();
    state = std::make_shared<const StateTransfer>(
        serve([&](ServerCore& core) {
          return core.moment([&](std::int64_t covered) { feed_->begin(covered); });
        }),
        options_.part_bytes);
  }
  {
    const concurrency::MutexLock lock(mutex_);
    if (state && pair_.role() == PairRole::kActing) {
      follower_.state = state;
      pair_.set_paired(false, clock_.now());
    }
    state = follower_.state;
  }
  if (state == nullptr || part >= state->parts())
    reply.must_fill = true;
  else
    reply.part = state->part(part);
  return reply;
}

FollowReply ReplicatedServer::Impl::send_records(FollowReply reply, const FollowRequest& request,
                                                 Time deadline) {
  const auto is_complete = feed_->acknowledge(request.applied);
  if (!is_complete) {
    reply.must_fill = true;
    return reply;
  }
  {
    const concurrency::MutexLock lock(mutex_);
    follower_.state = nullptr;
    if (pair_.role() == PairRole::kActing && feed_->is_required() && !pair_.is_paired())
      pair_.set_paired(true, clock_.now());
  }
  reply.is_complete = *is_complete;
  const Time until = reply.is_finished ? Time() : std::min(deadline, Clock::now() + request.wait);
  for (const io::BytePieces& each :
       feed_->take(request.applied, options_.part_bytes, until, [] {})) {
    if (each.pieces().size() == 1)
      reply.records.push_back(each.pieces().front());
    else
      reply.records.push_back(io::shared_bytes(each.joined()));
  }
  const concurrency::MutexLock lock(mutex_);
  reply.status = visible_status();
  return reply;
}

bool ReplicatedServer::Impl::is_finished() const {
  const bool is_over = serve_or(false, [](ServerCore& core) { return core.is_finished(); });
  const concurrency::MutexLock lock(mutex_);
  if (pair_.role() == PairRole::kActing) {
    if (!is_over) return false;
    const Time now = clock_.now();
    if (follower_.told_the_end) return now >= *follower_.told_the_end + kTimeToTell;
    return over_since_ && now >= *over_since_ + options_.term;
  }
  if (has_other_finished_) return true;
  return has_chief_finished_ && adrift_since_ &&
         clock_.now() >= *adrift_since_ + kTermsAdrift * options_.term;
}

std::optional<std::string> ReplicatedServer::Impl::failure() const {
  auto failure =
      serve_or(std::optional<std::string>(), [](ServerCore& core) { return core.failure(); });
  if (failure) return failure;
  const concurrency::MutexLock lock(mutex_);
  return failure_;
}

void ReplicatedServer::Impl::close() {
  feed_->interrupt();
  other_->close();
  const concurrency::MutexLock lock(mutex_);
  is_closed_ = true;
  if (serving_ != nullptr) serving_->close();
  wake();
}

/// The thread: its role has changed.
void ReplicatedServer::Impl::wake() {
  is_awake_ = true;
  changed_.notify_all();
}

void ReplicatedServer::Impl::fail(const std::exception& error) {
  const concurrency::MutexLock lock(mutex_);
  if (!is_closed_) failure_ = base::without_stack_trace(error.what());
}

/// The thread.
void ReplicatedServer::Impl::run() {
  try {
    for (;;) {
      const auto [life, role, epoch] = next_status();
      if (role != PairRole::kActing || epoch != acting_epoch_) stop_acting();
      {
        const concurrency::MutexLock lock(mutex_);
        if (is_closed_) return;
      }
      if (role == PairRole::kActing) {
        start_acting(epoch);
        note_end();
        pause(kPause);
      } else {
        consider_votes();
        call_other(role);
      }
    }
  } catch (const std::exception& error) {
    fail(error);  // its disk, most likely
  }
}

PairStatus ReplicatedServer::Impl::next_status() {
  const concurrency::MutexLock lock(mutex_);
  const Time now = clock_.now();
  pair_.tick(now);
  const PairRole role = pair_.role();
  if (role == PairRole::kActing || role == PairRole::kFollowing)
    adrift_since_.reset();
  else if (!adrift_since_)
    adrift_since_ = now;
  return pair_.status();
}

void ReplicatedServer::Impl::note_end() {
  const bool is_over = core_->is_finished();
  const concurrency::MutexLock lock(mutex_);
  if (!is_over) {
    over_since_.reset();
    follower_.told_the_end.reset();
  } else if (!over_since_) {
    over_since_ = clock_.now();
  }
}

void ReplicatedServer::Impl::start_acting(std::int64_t epoch) {
  if (core_) return;
  acting_epoch_ = epoch;
  store_.write_epoch(epoch);  // first: nobody is served before
  feed_->drop();
  feed_->resume();
  core_ = std::make_unique<ServerCore>(store_.release(), options_.core, clock_);
  base::log_info(base::str_cat("Parameter server ", options_.name, " acts from now on, in epoch ",
                               epoch, "; it has no replica yet."));
  const concurrency::MutexLock lock(mutex_);
  follower_ = {};
  if (is_closed_) core_->close();
  serving_ = core_.get();
}

void ReplicatedServer::Impl::stop_acting() {
  if (!core_) return;
  feed_->interrupt();
  core_->close();
  {
    const concurrency::MutexLock lock(mutex_);
    serving_ = nullptr;
    while (running_ > 0) idle_.wait(mutex_);
  }
  store_.adopt(ServerCore::release(std::move(core_)));
  feed_->drop();
  base::log_warning(base::str_cat("Parameter server ", options_.name,
                                  " no longer acts: it has lost its replica, or was replaced."));
}

/// Who is to vote. Without anybody who still trains, no vote is needed.
void ReplicatedServer::Impl::consider_votes() {
  const ParameterStore* const store = store_.store();
  std::optional<std::string> witness;
  for (int rank = 0; store && rank < static_cast<int>(options_.core.tasks.size()) && !witness;
       ++rank)
    if (!store->has_finished(rank))
      witness = cluster::to_string(options_.core.tasks[static_cast<std::size_t>(rank)]);
  const bool has_chief_finished = store && store->has_finished(0);
  const concurrency::MutexLock lock(mutex_);
  has_chief_finished_ = has_chief_finished;
  witness_ = witness;
  if (store && !witness) pair_.vote(pair_.status().epoch + 1);
}

void ReplicatedServer::Impl::call_other(PairRole role) {
  FollowRequest request{.number = ++calls_};
  {
    const concurrency::MutexLock lock(mutex_);
    request.from = visible_status();
  }
  const bool follows = role == PairRole::kFollowing;
  if (follows) {
    store_.describe(request);
    request.wait = options_.term / 4;
  }
  if (allowed_.count() == 0) allowed_ = options_.term / 2;
  const auto begin = Clock::now();
  const milliseconds allowed = follows ? request.wait + allowed_ : kShortCall;
  auto reply = ask_other(request, allowed);
  if (!reply) {
    // Its messages may be large, or the network slow.
    if (follows && Clock::now() - begin >= allowed) allowed_ = std::min(2 * allowed_, kLongestCall);
    return pause(kPause);
  }
  bool still_follows = false;
  {
    const concurrency::MutexLock lock(mutex_);
    pair_.hear(reply->status, clock_.now());
    if (reply->is_finished) has_other_finished_ = true;
    still_follows = pair_.role() == PairRole::kFollowing;
  }
  if (!follows || !still_follows) return pause(kPause);
  allowed_ = options_.term / 2;
  if (reply->status.role == PairRole::kActing)
    receive(std::move(*reply));
  else
    pause(kPause);
}

std::optional<FollowReply> ReplicatedServer::Impl::ask_other(const FollowRequest& request,
                                                             milliseconds allowed) {
  const Time deadline = Clock::now() + allowed;
  try {
    if (other_token_.empty()) other_token_ = other_->role(deadline).follow_token;
    return other_->follow(other_token_, request, deadline);
  } catch (const Error&) {
    other_token_.clear();  // it may be another process
    return std::nullopt;
  }
}

void ReplicatedServer::Impl::receive(FollowReply reply) {
  const FollowSource source = {.life = reply.status.life, .epoch = reply.status.epoch};
  bool is_dropped = false;
  {
    const concurrency::MutexLock lock(mutex_);
    is_dropped = reply.must_fill && pair_.role() == PairRole::kFollowing &&
                 pair_.status().epoch >= source.epoch;
  }
  if (is_dropped) {
    store_.write_epoch(0);  // from now on the one that acts may go on without it
    const concurrency::MutexLock lock(mutex_);
    if (pair_.role() == PairRole::kFollowing) pair_.begin_to_fill();
  }
  switch (store_.take(source, std::move(reply))) {
    case FollowerStore::Taken::kNothing:
      return;
    case FollowerStore::Taken::kState: {
      {
        const concurrency::MutexLock lock(mutex_);
        if (pair_.role() != PairRole::kFollowing) return;
        pair_.begin_to_fill();
      }
      store_.fill();
      return;
    }
    case FollowerStore::Taken::kEverything: {
      {
        const concurrency::MutexLock lock(mutex_);
        if (pair_.role() != PairRole::kFollowing || pair_.status().epoch == source.epoch) return;
      }
      store_.write_epoch(source.epoch);
      base::log_info(base::str_cat("The replica of parameter server ", options_.name,
                                   " has all updates; from now on each is acknowledged when it "
                                   "has it, too."));
      const concurrency::MutexLock lock(mutex_);
      if (pair_.role() == PairRole::kFollowing) pair_.complete(source.epoch);
      return;
    }
  }
}

void ReplicatedServer::Impl::pause(milliseconds time) {
  const Time until = Clock::now() + time;
  const concurrency::MutexLock lock(mutex_);
  while (!is_awake_ && Clock::now() < until) changed_.wait_until(mutex_, until);
  is_awake_ = false;
}

ReplicatedServer::ReplicatedServer(std::shared_ptr<io::FileSystem> files,
                                   ReplicatedServerOptions options, const base::Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(files), std::move(options), clock)) {}
ReplicatedServer::~ReplicatedServer() = default;

Grant ReplicatedServer::join(const JoinRequest& request, Time deadline) {
  return impl_->serve([&](ServerCore& core) { return core.join(request, deadline); });
}
ServerStatus ReplicatedServer::renew(const std::string& token, Time deadline) {
  return impl_->serve([&](ServerCore& core) { return core.renew(token, deadline); });
}
void ReplicatedServer::leave(const std::string& token, Time deadline) {
  impl_->serve([&](ServerCore& core) { core.leave(token, deadline); });
}
ServerStatus ReplicatedServer::create(const std::string& token, const CreateRequest& request,
                                      Time deadline) {
  return impl_->serve([&](ServerCore& core) { return core.create(token, request, deadline); });
}
void ReplicatedServer::assign(const std::string& token, const std::vector<NamedState>& variables,
                              std::int64_t step, Time deadline) {
  impl_->serve([&](ServerCore& core) { core.assign(token, variables, step, deadline); });
}
void ReplicatedServer::set_ready(const std::string& token, Time deadline) {
  impl_->serve([&](ServerCore& core) { core.set_ready(token, deadline); });
}
void ReplicatedServer::set_learning_rate(const std::string& token, double rate, Time deadline) {
  impl_->serve([&](ServerCore& core) { core.set_learning_rate(token, rate, deadline); });
}
ExchangeReply ReplicatedServer::exchange(const std::string& token, const ExchangeRequest& request,
                                         Time deadline) {
  return impl_->serve([&](ServerCore& core) { return core.exchange(token, request, deadline); });
}
StoredStates ReplicatedServer::states(const std::string& token,
                                      const std::vector<std::string>& names, Time deadline) {
  return impl_->serve([&](ServerCore& core) { return core.states(token, names, deadline); });
}
BeginStepReply ReplicatedServer::begin_step(const std::string& token,
                                            const BeginStepRequest& request, Time deadline) {
  return impl_->serve([&](ServerCore& core) { return core.begin_step(token, request, deadline); });
}
RoleReply ReplicatedServer::role(Time) {
  return impl_->role();
}
coordination::PairStatus ReplicatedServer::vote(const Vote& vote, Time) {
  return impl_->vote(vote);
}
FollowReply ReplicatedServer::follow(const std::string& token, const FollowRequest& request,
                                     Time deadline) {
  return impl_->follow(token, request, deadline);
}
void ReplicatedServer::close() {
  impl_->close();
}

void ReplicatedServer::tick() {
  impl_->serve_or(false, [](ServerCore& core) {
    core.tick();
    return true;
  });
}
std::optional<ReplicatedServer::Time> ReplicatedServer::next_expiry() const {
  return impl_->serve_or(std::optional<Time>(),
                         [](ServerCore& core) { return core.next_expiry(); });
}
ServerStatus ReplicatedServer::status() const {
  return impl_->serve_or(ServerStatus(), [](ServerCore& core) { return core.status(); });
}
ServerCounters ReplicatedServer::counters() const {
  return impl_->serve_or(ServerCounters(), [](ServerCore& core) { return core.counters(); });
}
ServerMetrics ReplicatedServer::metrics() const {
  return impl_->serve_or(ServerMetrics(), [](ServerCore& core) { return core.metrics(); });
}
bool ReplicatedServer::is_finished() const {
  return impl_->is_finished();
}
std::optional<std::string> ReplicatedServer::failure() const {
  return impl_->failure();
}
bool ReplicatedServer::is_paired() const {
  return impl_->is_paired();
}

}  // namespace brigade::ps

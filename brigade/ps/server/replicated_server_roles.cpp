#include <algorithm>
#include <exception>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/ps/server/replicated_server.h"

/// What the thread of a process of a replicated server does: it acts, or calls the other one.
namespace brigade::ps {
namespace {

using coordination::PairRole;
using coordination::PairStatus;
using std::chrono::milliseconds;

// Between two calls of one that does not follow.
constexpr milliseconds kPause{20};
constexpr milliseconds kShortCall{500};
constexpr milliseconds kLongestCall{60'000};

}  // namespace

/// The thread: its role has changed.
void ReplicatedServer::wake() {
  is_awake_ = true;
  changed_.notify_all();
}

void ReplicatedServer::fail(const std::exception& error) {
  const concurrency::MutexLock lock(mutex_);
  if (!is_closed_) failure_ = base::without_stack_trace(error.what());
}

/// The thread.
void ReplicatedServer::run() {
  try {
    for (;;) {
      const PairStatus own = next_status();
      const PairRole role = own.role;
      const std::int64_t epoch = own.epoch;
      if (role != PairRole::kActing || epoch != acting_epoch_) stop_acting();
      {
        const concurrency::MutexLock lock(mutex_);
        if (is_closed_) return;
      }
      if (role == PairRole::kActing) {
        start_acting(epoch);
        record_end();
        doubt_follower();
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

PairStatus ReplicatedServer::next_status() {
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

void ReplicatedServer::record_end() {
  const bool is_over = core_->is_finished();
  const concurrency::MutexLock lock(mutex_);
  if (!is_over) {
    over_since_.reset();
    follower_.knows_end_since.reset();
  } else if (!over_since_) {
    over_since_ = clock_.now();
  }
}

void ReplicatedServer::start_acting(std::int64_t epoch) {
  if (core_) return;
  acting_epoch_ = epoch;
  store_.write_epoch(epoch);  // first: nobody is served before
  feed_->drop();
  feed_->resume();
  core_ = std::make_unique<ServerCore>(store_.release(), options_.core, clock_);
  base::log_info("Parameter server ", options_.name, " acts from now on, in epoch ", epoch,
                 "; it has no replica yet.");
  const concurrency::MutexLock lock(mutex_);
  follower_ = {};
  witness_.reset();  // no vote counts before the one that acted has stopped
  if (is_closed_) core_->close();
  const PairStatus own = pair_.status();  // it may know a later epoch by now
  if (own.role == PairRole::kActing && own.epoch == epoch) serving_ = core_.get();
}

void ReplicatedServer::stop_acting() {
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
  base::log_warning("Parameter server ", options_.name,
                    " no longer acts: it has lost its replica, or was replaced.");
}

/// Calls of the follower from before it acted may arrive late, so its silence alone shows too late
/// that this process was replaced: the job could end meanwhile.
void ReplicatedServer::doubt_follower() {
  {
    const concurrency::MutexLock lock(mutex_);
    if (!pair_.doubts_follower(clock_.now())) return;
  }
  try {
    const RoleReply reply = other_->role(std::chrono::steady_clock::now() + kShortCall);
    const concurrency::MutexLock lock(mutex_);
    pair_.receive(reply.status, clock_.now());
  } catch (const Error&) {
    // It is lost, most likely.
  }
}

/// Who is to vote. Without anybody who still trains, no vote is needed.
void ReplicatedServer::consider_votes() {
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

void ReplicatedServer::call_other(PairRole role) {
  FollowRequest request{.number = ++calls_};
  {
    const concurrency::MutexLock lock(mutex_);
    request.from = visible_status();
    request.knows_end = other_finished_since_.has_value();
  }
  const bool follows = role == PairRole::kFollowing;
  if (follows) {
    store_.describe(request);
    request.wait = options_.term / 4;
  }
  if (allowed_.count() == 0) allowed_ = options_.term / 2;
  const auto begin = std::chrono::steady_clock::now();
  const milliseconds allowed = follows ? request.wait + allowed_ : kShortCall;
  auto reply = call_other(request, allowed);
  if (!reply) {
    // Its messages may be large, or the network slow.
    if (follows && std::chrono::steady_clock::now() - begin >= allowed)
      allowed_ = std::min(2 * allowed_, kLongestCall);
    return pause(kPause);
  }
  bool still_follows = false;
  {
    const concurrency::MutexLock lock(mutex_);
    pair_.receive(reply->status, clock_.now());
    if (!reply->is_finished)
      other_finished_since_.reset();
    else if (!other_finished_since_)
      other_finished_since_ = clock_.now();
    else
      has_confirmed_end_ = true;
    still_follows = pair_.role() == PairRole::kFollowing;
  }
  if (!follows || !still_follows) return pause(kPause);
  allowed_ = options_.term / 2;
  if (reply->status.role == PairRole::kActing)
    receive(std::move(*reply));
  else
    pause(kPause);
}

std::optional<FollowReply> ReplicatedServer::call_other(const FollowRequest& request,
                                                        milliseconds allowed) {
  const Time deadline = std::chrono::steady_clock::now() + allowed;
  try {
    if (other_token_.empty()) other_token_ = other_->role(deadline).follow_token;
    return other_->follow(other_token_, request, deadline);
  } catch (const Error&) {
    other_token_.clear();  // it may be another process
    return std::nullopt;
  }
}

void ReplicatedServer::receive(FollowReply reply) {
  const FollowSource source = {.life = reply.status.life, .epoch = reply.status.epoch};
  if (reply.must_fill && store_.epoch().value_or(0) >= source.epoch) {
    store_.write_epoch(0);  // from now on the one that acts may continue without it
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
      base::log_info("The replica of parameter server ", options_.name,
                     " has all updates; from now on each is acknowledged when it has it, too.");
      const concurrency::MutexLock lock(mutex_);
      if (pair_.role() == PairRole::kFollowing) pair_.complete(source.epoch);
      return;
    }
  }
}

void ReplicatedServer::pause(milliseconds time) {
  const Time until = std::chrono::steady_clock::now() + time;
  const concurrency::MutexLock lock(mutex_);
  while (!is_awake_ && std::chrono::steady_clock::now() < until) changed_.wait_until(mutex_, until);
  is_awake_ = false;
}

}  // namespace brigade::ps

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/ps/server/replicated_server.h"
#include "brigade/rpc/token.h"

/// What a process of a replicated server that acts does for the other one.
namespace brigade::ps {
namespace {

using coordination::PairRole;

}  // namespace

/// Returns whether this process serves its caller as a follower. Until a follower says itself that
/// it is not complete, acknowledgments wait for it, also when it was started again: it could act.
bool ReplicatedServer::admit_follower(const FollowRequest& request) {
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
  follower_.last_contact = clock_.now();
  if (pair_.is_paired()) pair_.record_follower_call(clock_.now());
  return request.from.role == PairRole::kFollowing;
}

FollowReply ReplicatedServer::follow(const std::string& token, const FollowRequest& request,
                                     Time deadline) {
  if (!rpc::is_same_token(token, follow_token_))
    throw Error(ErrorCode::kPermissionDenied,
                "The caller is not the other process of this parameter server.");
  const Running running(*this);  // what it serves belongs to the epoch in which it was admitted
  FollowReply reply;
  const bool is_finished = running.core() != nullptr && running.core()->is_finished();
  FollowSource own;
  {
    const concurrency::MutexLock lock(mutex_);
    const PairRole before = pair_.role();
    pair_.receive(request.from, clock_.now());
    if (pair_.role() != before) wake();
    const bool serves = admit_follower(request);
    reply.status = visible_status();
    if (is_finished && reply.status.role == PairRole::kActing) {
      reply.is_finished = true;
      if (request.knows_end && !follower_.knows_end_since) follower_.knows_end_since = clock_.now();
    }
    if (!serves) return reply;
    own = {.life = reply.status.life, .epoch = reply.status.epoch};
    follower_.is_complete = request.source == own && request.from.epoch == own.epoch;
  }
  // One that still counts as complete first writes to its disk that it no longer is.
  const bool is_complete = request.from.epoch >= own.epoch;
  reply.must_fill = request.part ? is_complete : request.source != own;
  if (reply.must_fill) return reply;
  if (request.part) {
    if (*request.part == 0) collect_state(request);
    return send_state(std::move(reply), *request.part);
  }
  return send_records(std::move(reply), request, deadline);
}

/// For a follower that is to be filled. Its later calls wait meanwhile. So a call that was held up
/// cannot let this process continue without a follower that is complete by now.
void ReplicatedServer::collect_state(const FollowRequest& request) {
  const concurrency::MutexLock one_at_a_time(collecting_);
  {
    const concurrency::MutexLock lock(mutex_);
    if (request.from.life != follower_.life || request.number != follower_.number)
      throw Error(ErrorCode::kUnavailable, "A replica asked for a state, and has called again.");
  }
  // Nobody waits any longer for one that is to be filled: a creation that did would hold up its
  // state. Records that follow that state are kept.
  feed_->drop();
  auto state = std::make_shared<const StateTransfer>(
      Running(*this).acting().moment([&](std::int64_t covered) { feed_->begin(covered); }),
      options_.part_bytes);
  const concurrency::MutexLock lock(mutex_);
  if (pair_.role() != PairRole::kActing) return;
  follower_.state = std::move(state);
  pair_.set_paired(feed_->is_required(), clock_.now());
}

FollowReply ReplicatedServer::send_state(FollowReply reply, int part) const {
  std::shared_ptr<const StateTransfer> state;
  {
    const concurrency::MutexLock lock(mutex_);
    state = follower_.state;
  }
  if (state == nullptr || part >= state->parts())
    reply.must_fill = true;
  else
    reply.part = state->part(part);
  return reply;
}

FollowReply ReplicatedServer::send_records(FollowReply reply, const FollowRequest& request,
                                           Time deadline) {
  const auto is_complete = feed_->acknowledge(request.applied);
  if (!is_complete) {
    base::log_warning(
        "The replica of parameter server ", options_.name,
        " lacks updates that are no longer in memory, so it receives all variables again.");
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
  const Time until = reply.is_finished
                         ? Time()
                         : std::min(deadline, std::chrono::steady_clock::now() + request.wait);
  for (const io::BytePieces& each : feed_->take(request.applied, options_.part_bytes, until)) {
    if (each.pieces().size() == 1)
      reply.records.push_back(each.pieces().front());
    else
      reply.records.push_back(io::shared_bytes(each.joined()));
  }
  const concurrency::MutexLock lock(mutex_);
  reply.status = visible_status();
  return reply;
}

}  // namespace brigade::ps

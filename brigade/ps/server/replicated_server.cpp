#include "brigade/ps/server/replicated_server.h"

#include <algorithm>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/rpc/token.h"

namespace brigade::ps {
namespace {

using coordination::PairRole;
using coordination::PairStatus;
using std::chrono::milliseconds;

// For the answer to one that knows that the job is over to arrive.
constexpr milliseconds kTimeToAnswer{300};
// After which one that acts ends, although the other one calls and does not learn that the job is
// over, and one that cannot act ends when the chief has finished.
constexpr int kTermsAdrift = 3;

std::string new_life() {
  const std::string token = rpc::make_token();
  return base::to_hex(std::as_bytes(std::span(token)).first(8));
}

}  // namespace

ReplicatedServer::ReplicatedServer(std::shared_ptr<io::FileSystem> files,
                                   ReplicatedServerOptions options, const base::Clock& clock)
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

ReplicatedServer::~ReplicatedServer() {
  close();
  thread_.join();
  const concurrency::MutexLock lock(mutex_);
  serving_ = nullptr;
  while (running_ > 0) idle_.wait(mutex_);
}

/// One that was voted for acts once it serves.
PairStatus ReplicatedServer::visible_status() const {
  PairStatus status = pair_.status();
  if (status.role == PairRole::kActing && serving_ == nullptr) status.role = PairRole::kLooking;
  return status;
}

ServerCore& ReplicatedServer::Running::acting() const {
  if (core_ == nullptr)
    throw Error(ErrorCode::kUnavailable, "This process of the parameter server ",
                server_.options_.name, " does not act at the moment.");
  return *core_;
}

RoleReply ReplicatedServer::role(Time) {
  const concurrency::MutexLock lock(mutex_);
  return {.status = visible_status(), .follow_token = follow_token_};
}

PairStatus ReplicatedServer::vote(const Vote& vote, Time) {
  const concurrency::MutexLock lock(mutex_);
  const PairStatus own = pair_.status();
  if (own.role == PairRole::kCandidate && vote.life == own.life &&
      vote.candidacy == own.candidacy && witness_ == cluster::to_string(vote.voter) &&
      pair_.vote(vote.epoch))
    wake();
  return visible_status();
}

bool ReplicatedServer::is_finished() const {
  const bool is_over = serve_or(false, [](ServerCore& core) { return core.is_finished(); });
  const concurrency::MutexLock lock(mutex_);
  const Time now = clock_.now();
  if (pair_.role() == PairRole::kActing) {
    if (!is_over) return false;
    if (follower_.knows_end_since) return now >= *follower_.knows_end_since + kTimeToAnswer;
    if (!over_since_) return false;
    const Time silent_since = std::max(*over_since_, follower_.last_contact);
    return now >= silent_since + options_.term ||
           now >= *over_since_ + kTermsAdrift * options_.term;
  }
  if (other_finished_since_)
    return has_confirmed_end_ || now >= *other_finished_since_ + options_.term;
  return has_chief_finished_ && adrift_since_ &&
         now >= *adrift_since_ + kTermsAdrift * options_.term;
}

std::optional<std::string> ReplicatedServer::failure() const {
  auto failure =
      serve_or(std::optional<std::string>(), [](ServerCore& core) { return core.failure(); });
  if (failure) return failure;
  const concurrency::MutexLock lock(mutex_);
  return failure_;
}

bool ReplicatedServer::is_paired() const {
  const concurrency::MutexLock lock(mutex_);
  return serving_ != nullptr && pair_.role() == PairRole::kActing && follower_.is_complete;
}

void ReplicatedServer::close() {
  feed_->interrupt();
  other_->close();
  const concurrency::MutexLock lock(mutex_);
  is_closed_ = true;
  if (serving_ != nullptr) serving_->close();
  wake();
}

void ReplicatedServer::tick() {
  serve_or(false, [](ServerCore& core) {
    core.tick();
    return true;
  });
}
std::optional<ReplicatedServer::Time> ReplicatedServer::next_expiry() const {
  return serve_or(std::optional<Time>(), [](ServerCore& core) { return core.next_expiry(); });
}
ServerStatus ReplicatedServer::status() const {
  return serve_or(ServerStatus(), [](ServerCore& core) { return core.status(); });
}
ServerCounters ReplicatedServer::counters() const {
  return serve_or(ServerCounters(), [](ServerCore& core) { return core.counters(); });
}
ServerMetrics ReplicatedServer::metrics() const {
  return serve_or(ServerMetrics(), [](ServerCore& core) { return core.metrics(); });
}

}  // namespace brigade::ps

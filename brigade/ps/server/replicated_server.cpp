#include "brigade/ps/server/replicated_server.h"

#include <algorithm>
#include <span>
#include <utility>

#include "brigade/ps/server/replicated_server_impl.h"
#include "brigade/rpc/token.h"

namespace brigade::ps {
namespace {

using coordination::PairRole;
using coordination::PairStatus;
using std::chrono::milliseconds;

// For the answer to one that knows that the job is over to arrive.
constexpr milliseconds kTimeToAnswer{300};
// After which one that acts ends, although the other one calls and does not hear that the job is
// over, and one that cannot act ends when the chief has finished.
constexpr int kTermsAdrift = 3;

std::string new_life() {
  const std::string token = rpc::make_token();
  return base::to_hex(std::as_bytes(std::span(token)).first(8));
}

}  // namespace

ReplicatedServer::Impl::Impl(std::shared_ptr<io::FileSystem> files, ReplicatedServerOptions options,
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

ReplicatedServer::Impl::~Impl() {
  close();
  thread_.join();
  const concurrency::MutexLock lock(mutex_);
  serving_ = nullptr;
  while (running_ > 0) idle_.wait(mutex_);
}

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
  const PairStatus own = pair_.status();
  if (own.role == PairRole::kCandidate && vote.life == own.life &&
      vote.candidacy == own.candidacy && witness_ == cluster::to_string(vote.voter) &&
      pair_.vote(vote.epoch))
    wake();
  return visible_status();
}

bool ReplicatedServer::Impl::is_finished() const {
  const bool is_over = serve_or(false, [](ServerCore& core) { return core.is_finished(); });
  const concurrency::MutexLock lock(mutex_);
  const Time now = clock_.now();
  if (pair_.role() == PairRole::kActing) {
    if (!is_over) return false;
    if (follower_.knows_end_since) return now >= *follower_.knows_end_since + kTimeToAnswer;
    if (!over_since_) return false;
    const Time silent_since = std::max(*over_since_, follower_.heard);
    return now >= silent_since + options_.term ||
           now >= *over_since_ + kTermsAdrift * options_.term;
  }
  if (other_finished_since_)
    return has_confirmed_end_ || now >= *other_finished_since_ + options_.term;
  return has_chief_finished_ && adrift_since_ &&
         now >= *adrift_since_ + kTermsAdrift * options_.term;
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

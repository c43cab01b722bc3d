#include "brigade/comm/nccl/nccl_group.h"

#include <algorithm>
#include <thread>

#include "brigade/base/strings.h"
#include "brigade/comm/nccl/poll_pause.h"

namespace brigade::comm {

namespace {

using concurrency::MutexLock;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// How long the processes may take to connect after all have started.
constexpr milliseconds kConnectTimeout = std::chrono::minutes(2);
/// How long to wait for the other members to close the group.
constexpr milliseconds kCloseTimeout = std::chrono::seconds(5);
/// How often a waiting rank asks the store whether another member has given up.
constexpr milliseconds kAskAgain{250};
constexpr auto kMakingIt = "make_nccl_process_communicators";

}  // namespace

NcclGroup::NcclGroup(std::unique_ptr<NcclClique> clique,
                     std::shared_ptr<cluster::Membership> membership, const std::string& name,
                     const CommunicationOptions& options)
    : membership_(std::move(membership)),
      options_(options),
      clique_(std::move(clique)),
      peer_status_(membership_, name) {
  const milliseconds patience = std::min(options_.timeout, kConnectTimeout);
  for (int rank = 0; rank < clique_->local_size(); ++rank) wait(rank, kMakingIt, patience);
}

NcclGroup::~NcclGroup() {
  const auto until = steady_clock::now() + std::min(options_.timeout, kCloseTimeout);
  const auto lost = membership_->lost_token();
  if (!start_closing()) return;
  while (!has_closed() && !lost.is_cancelled() && steady_clock::now() < until)
    std::this_thread::sleep_for(milliseconds(1));
}

bool NcclGroup::start_closing() noexcept {
  const MutexLock lock(mutex_);
  if (failure_) return false;
  // This is not reported as leaving: members that still wait for a collective have all they need.
  try {
    clique_->start_closing();
    return true;
  } catch (const std::exception&) {  // the clique's end aborts what is left
    return false;
  }
}

void NcclGroup::run(int local_rank, const CollectiveCall& call) {
  start(local_rank, call);
  wait(local_rank, call.name(), options_.timeout);
}

void NcclGroup::abandon(int, const std::string& reason) noexcept {
  const MutexLock lock(mutex_);
  if (failure_) return;
  clique_->abort();
  failure_ = Error(ErrorCode::kAborted, reason);
  peer_status_.give_up(*failure_);
}

void NcclGroup::start(int local_rank, const CollectiveCall& call) {
  const MutexLock lock(mutex_);
  if (failure_) throw *failure_;
  try {
    clique_->start(local_rank, call);
  } catch (const std::exception& error) {
    fail_as_broken(call.name(), base::without_stack_trace(error.what()));
  }
}

void NcclGroup::wait(int local_rank, std::string_view what, milliseconds timeout) {
  StragglerReport report(options_.slow_after, timeout);
  PollPause pause;
  auto next_question = steady_clock::now() + kAskAgain;
  while (poll(local_rank, what) != Progress::kDone) {
    if (report.is_due()) report.report(what, "the GPUs");
    if (report.is_over()) {
      const MutexLock lock(mutex_);
      if (failure_) throw *failure_;
      fail(Error(ErrorCode::kDeadlineExceeded,
                 base::str_cat(what, " over NCCL has not ended within ", timeout.count(),
                               " ms, though all members are alive: NCCL_DEBUG=INFO shows what NCCL "
                               "waits for; raise the timeout if a step really needs longer.")));
    }
    if (steady_clock::now() >= next_question) {
      look_for_reasons(what);
      next_question = steady_clock::now() + kAskAgain;
    }
    pause.rest();
  }
}

NcclGroup::Progress NcclGroup::poll(int local_rank, std::string_view what) {
  const MutexLock lock(mutex_);
  if (failure_) throw *failure_;
  if (membership_->lost_token().is_cancelled()) {
    try {
      cluster::throw_if_lost(*membership_, what);
    } catch (const Error& error) {
      fail(error);
    }
  }
  NcclStatus status;
  try {
    status = clique_->status(local_rank);
  } catch (const std::exception& error) {
    status = {NcclStatus::State::kFailed, std::string(base::without_stack_trace(error.what()))};
  }
  if (status.state == NcclStatus::State::kFailed) fail_as_broken(what, status.reason);
  return status.state == NcclStatus::State::kDone ? Progress::kDone : Progress::kUnderWay;
}

void NcclGroup::look_for_reasons(std::string_view what) {
  const MutexLock lock(mutex_);
  if (failure_) throw *failure_;
  std::optional<Error> reason;
  try {
    reason = peer_status_.find_reason(what);
  } catch (const Error& error) {  // the store is lost, with the member that hosts it
    reason = error;
  }
  if (reason) fail(*reason);
}

bool NcclGroup::has_closed() noexcept {
  const MutexLock lock(mutex_);
  try {
    for (int rank = 0; rank < clique_->local_size(); ++rank) {
      const NcclStatus::State state = clique_->status(rank).state;
      if (state != NcclStatus::State::kDone && state != NcclStatus::State::kFailed) return false;
    }
  } catch (const std::exception&) {  // likewise
  }
  return true;
}

void NcclGroup::fail(Error error) {
  clique_->abort();
  failure_ = std::move(error);
  peer_status_.give_up(*failure_);
  throw *failure_;
}

void NcclGroup::fail_as_broken(std::string_view what, std::string_view text) {
  // NCCL often sees that a peer has died before the membership knows who.
  clique_->abort();
  failure_ = peer_status_.explain(what, base::str_cat("NCCL: ", text));
  peer_status_.give_up(*failure_);
  throw *failure_;
}

}  // namespace brigade::comm

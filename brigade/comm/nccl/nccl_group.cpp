#include "brigade/comm/nccl/nccl_group.h"

#include <algorithm>
#include <thread>

#include "brigade/base/strings.h"
#include "brigade/comm/nccl/close_clique.h"
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
/// How often the watcher looks at the GPUs and the membership.
constexpr milliseconds kWatchInterval{20};
constexpr auto kMakingIt = "make_nccl_process_communicators";

}  // namespace

NcclGroup::NcclGroup(std::unique_ptr<NcclClique> clique,
                     std::shared_ptr<cluster::Membership> membership, const std::string& name,
                     const CommunicationOptions& options)
    : membership_(std::move(membership)),
      options_(options),
      clique_(std::move(clique)),
      peer_status_(membership_, name),
      started_(static_cast<std::size_t>(clique_->local_size())),
      finished_(started_.size()) {
  join();
  watcher_ = std::thread([this] { watch(); });
}

NcclGroup::~NcclGroup() {
  const auto until = steady_clock::now() + std::min(options_.timeout, kCloseTimeout);
  for (int rank = 0; rank < clique_->local_size(); ++rank) {
    while (!has_finished(rank) && steady_clock::now() < until)
      std::this_thread::sleep_for(milliseconds(1));
  }
  end_watching();
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
  }
  // This is not reported as leaving: members that still wait for a collective have all they need.
  const auto lost = membership_->lost_token();
  close_clique(*clique_, [&] { return lost.is_cancelled() || steady_clock::now() >= until; });
}

void NcclGroup::join() {
  CommunicationOptions patience = options_;
  patience.timeout = std::min(options_.timeout, kConnectTimeout);
  for (int rank = 0; rank < clique_->local_size(); ++rank) {
    PollPause pause;
    const MutexLock lock(mutex_);
    watchdog_.emplace(*membership_, peer_status_, patience, kMakingIt);
    while (checked_status(rank, kMakingIt).state != NcclStatus::State::kDone) {
      watch_front();
      pause.rest();
    }
    watchdog_.reset();
  }
}

void NcclGroup::run(int local_rank, const CollectiveCall& call) {
  start(local_rank, call);
  wait_until_queued(local_rank, call.name());
}

void NcclGroup::finish(int local_rank) {
  PollPause pause;
  while (!has_finished(local_rank)) pause.rest();
  throw_if_failed();
}

void NcclGroup::throw_if_failed() {
  const MutexLock lock(mutex_);
  if (failure_) throw *failure_;
}

void NcclGroup::abandon(int, const std::string& reason) noexcept {
  const MutexLock lock(mutex_);
  if (!failure_) end(Error(ErrorCode::kAborted, reason));
}

void NcclGroup::start(int local_rank, const CollectiveCall& call) {
  const MutexLock lock(mutex_);
  if (failure_) throw *failure_;
  try {
    clique_->start(local_rank, call);
  } catch (const std::exception& error) {
    fail_as_broken(call.name(), base::without_stack_trace(error.what()));
  }
  if (local_rank == 0) peer_status_.begin_call();
  queued_.push_back({.local_rank = local_rank,
                     .number = ++started_[static_cast<std::size_t>(local_rank)],
                     .what = call.name()});
  if (queued_.size() == 1) changed_.notify_all();  // otherwise the watcher comes by itself
}

/// The watcher ends the wait if NCCL never does.
void NcclGroup::wait_until_queued(int local_rank, std::string_view what) {
  for (PollPause pause;; pause.rest()) {
    const MutexLock lock(mutex_);
    if (failure_) throw *failure_;
    if (checked_status(local_rank, what).state != NcclStatus::State::kUnderWay) return;
  }
}

bool NcclGroup::has_finished(int local_rank) {
  const MutexLock lock(mutex_);
  if (failure_) return true;
  try {
    forget_finished();
  } catch (const Error&) {  // it has ended the group
    return true;
  }
  const auto rank = static_cast<std::size_t>(local_rank);
  return finished_[rank] == started_[rank];
}

void NcclGroup::watch() {
  mutex_.lock();
  while (!is_ending_) {
    if (queued_.empty() || failure_) {
      changed_.wait(mutex_);
      continue;
    }
    watch_queued();
    changed_.wait_until(mutex_, steady_clock::now() + kWatchInterval);
  }
  mutex_.unlock();
}

void NcclGroup::watch_queued() {
  try {
    forget_finished();
    if (queued_.empty()) return;
    for (const Queued& each : queued_) {
      if (each.number == started_[static_cast<std::size_t>(each.local_rank)])
        checked_status(each.local_rank, each.what);
    }
    watch_front();
  } catch (const Error&) {  // it has ended the group, whose next call throws this
  }
}

void NcclGroup::forget_finished() {
  for (std::size_t rank = 0; rank < finished_.size(); ++rank) {
    try {
      finished_[rank] = clique_->finished(static_cast<int>(rank));
    } catch (const std::exception& error) {  // of the driver
      fail_as_broken(queued_.empty() ? "NCCL" : queued_.front().what,
                     base::without_stack_trace(error.what()));
    }
  }
  while (!queued_.empty() && queued_.front().number <=
                                 finished_[static_cast<std::size_t>(queued_.front().local_rank)]) {
    queued_.pop_front();
    watchdog_.reset();
  }
}

/// Ends the group if what is waited for cannot end.
void NcclGroup::watch_front() {
  if (!watchdog_) {
    watchdog_.emplace(*membership_, peer_status_, options_, queued_.front().what);
    next_question_ = steady_clock::now() + kAskAgain;
  }
  const std::string_view what = queued_.empty() ? kMakingIt : queued_.front().what;
  std::optional<Error> reason;
  try {
    watchdog_->check();
    if (steady_clock::now() >= next_question_) {
      reason = peer_status_.find_reason(what);
      next_question_ = steady_clock::now() + kAskAgain;
    }
  } catch (const Error& error) {  // a member is lost, perhaps with the store, or the time is over
    reason = error;
    if (error.code() == ErrorCode::kDeadlineExceeded) {
      reason = Error(error.code(), what, " over NCCL has not ended. ", error.what(),
                     " NCCL_DEBUG=INFO shows what NCCL waits for.");
    }
  }
  if (reason) fail(*reason);
}

NcclStatus NcclGroup::checked_status(int local_rank, std::string_view what) {
  NcclStatus status;
  try {
    status = clique_->status(local_rank);
  } catch (const std::exception& error) {
    status = {NcclStatus::State::kFailed, std::string(base::without_stack_trace(error.what()))};
  }
  if (status.state == NcclStatus::State::kFailed) fail_as_broken(what, status.reason);
  return status;
}

void NcclGroup::end_watching() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  watcher_.join();
}

// The failure is known before anything is aborted: who finds that the GPU is done finds it, too.
void NcclGroup::end(Error error) {
  failure_ = std::move(error);
  clique_->abort();
  peer_status_.give_up(*failure_);
  changed_.notify_all();
}

void NcclGroup::fail(Error error) {
  end(std::move(error));
  throw *failure_;
}

void NcclGroup::fail_as_broken(std::string_view what, std::string_view text) {
  // NCCL often sees that a peer has died before the membership knows who. Nothing may wait on the
  // GPU meanwhile.
  failure_ = Error(ErrorCode::kUnavailable, what, " failed: NCCL: ", text);
  clique_->abort();
  failure_ = peer_status_.explain(what, base::str_cat("NCCL: ", text));
  peer_status_.give_up(*failure_);
  changed_.notify_all();
  throw *failure_;
}

}  // namespace brigade::comm

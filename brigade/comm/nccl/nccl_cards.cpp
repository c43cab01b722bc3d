#include "brigade/comm/nccl/nccl_cards.h"

#include <set>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/comm/nccl/close_clique.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/comm/nccl/poll_pause.h"

namespace brigade::comm {

namespace {

using concurrency::MutexLock;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kCardsCloseTimeout = std::chrono::seconds(5);

}  // namespace

NcclCards::NcclCards(std::unique_ptr<NcclClique> clique, milliseconds timeout)
    : timeout_(timeout), clique_(std::move(clique)) {
  for (int rank = 0; rank < clique_->local_size(); ++rank)
    wait(rank, "make_nccl_communicators", Until::kDone);
}

NcclCards::~NcclCards() {
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
  }
  const auto until = steady_clock::now() + kCardsCloseTimeout;
  close_clique(*clique_, [until] { return steady_clock::now() >= until; });
}

void NcclCards::run(int local_rank, const CollectiveCall& call) {
  start(local_rank, call);
  wait(local_rank, call.name(), Until::kQueued);
}

void NcclCards::finish(int local_rank) {
  wait(local_rank, "what was queued", Until::kDone);
}

void NcclCards::throw_if_failed() {
  const MutexLock lock(mutex_);
  if (failure_) throw *failure_;
}

void NcclCards::abandon(int local_rank, const std::string& reason) noexcept {
  const MutexLock lock(mutex_);
  if (!failure_) end(local_rank, reason);
}

void NcclCards::start(int local_rank, const CollectiveCall& call) {
  const MutexLock lock(mutex_);
  if (failure_) throw *failure_;
  try {
    clique_->start(local_rank, call);
  } catch (const std::exception& error) {
    fail(local_rank, ErrorCode::kUnavailable, std::string(base::without_stack_trace(error.what())));
  }
}

void NcclCards::wait(int local_rank, std::string_view what, Until until) {
  const auto deadline = steady_clock::now() + timeout_;
  PollPause pause;
  for (;; pause.rest()) {
    const MutexLock lock(mutex_);
    if (failure_) throw *failure_;
    const NcclStatus now = status(local_rank);
    if (now.state == NcclStatus::State::kFailed)
      fail(local_rank, ErrorCode::kUnavailable, now.reason);
    if (now.state == NcclStatus::State::kDone) return;
    if (now.state == NcclStatus::State::kQueued && until == Until::kQueued) return;
    if (steady_clock::now() < deadline) continue;
    fail(local_rank, ErrorCode::kDeadlineExceeded,
         base::str_cat(what, " over NCCL has not ended within ", timeout_.count(),
                       " ms: NCCL_DEBUG=INFO shows what NCCL waits for; raise the timeout if a "
                       "step really needs longer."));
  }
}

NcclStatus NcclCards::status(int local_rank) {
  try {
    return clique_->status(local_rank);
  } catch (const std::exception& error) {
    return {NcclStatus::State::kFailed, std::string(base::without_stack_trace(error.what()))};
  }
}

void NcclCards::end(int local_rank, const std::string& reason) {
  clique_->abort();
  failure_ =
      Error(ErrorCode::kAborted, "NCCL was aborted on all GPUs of this process, because rank ",
            local_rank, " failed: ", reason);
}

void NcclCards::fail(int local_rank, ErrorCode code, const std::string& reason) {
  end(local_rank, reason);
  throw Error(code, "NCCL on rank ", local_rank, ": ", reason);
}

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    const std::vector<int>& cards, std::vector<std::unique_ptr<Communicator>> local,
    milliseconds timeout) {
  const std::unique_ptr<NcclLibrary> library = find_nccl_library();
  if (library == nullptr) {
    throw Error(ErrorCode::kUnimplemented,
                "NCCL is not built into this program: configure with -DBRIGADE_WITH_CUDA=ON.");
  }
  return make_nccl_communicators(*library, cards, std::move(local), timeout);
}

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(
    const NcclLibrary& library, const std::vector<int>& cards,
    std::vector<std::unique_ptr<Communicator>> local, milliseconds timeout) {
  check_argument(std::set<int>(cards.begin(), cards.end()).size() == cards.size(),
                 "NCCL needs a separate GPU for each rank.");
  check_argument(cards.size() == local.size(),
                 "make_nccl_communicators: give a GPU for each rank.");
  NcclCliqueOptions options{.id = library.make_id(), .world_size = static_cast<int>(cards.size())};
  for (const int card : cards)
    options.cards.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(card));
  const auto runner = std::make_shared<NcclCards>(library.start_joining(options), timeout);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (auto& rank : local) {
    const int number = rank->rank();
    communicators.push_back(make_nccl_communicator(runner, number, std::move(rank)));
  }
  return communicators;
}

}  // namespace brigade::comm

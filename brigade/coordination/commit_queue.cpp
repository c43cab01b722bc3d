#include "brigade/coordination/commit_queue.h"

#include "brigade/base/error.h"

namespace brigade::coordination {

CommitQueue::CommitQueue(std::int64_t committed) : appended_(committed), committed_(committed) {
  check_argument(committed >= 0, "Records of a log are numbered from 1.");
}

std::int64_t CommitQueue::append() {
  if (has_failed_)
    throw Error(ErrorCode::kDataLoss,
                "The log could not be synced to its disk, so it takes no more records: free or "
                "replace the disk and restart the server.");
  return ++appended_;
}

std::optional<std::int64_t> CommitQueue::begin_sync() {
  if (has_failed_ || syncing_ || appended_ == committed_) return std::nullopt;
  syncing_ = appended_;
  return syncing_;
}

void CommitQueue::finish_sync() {
  check_state(syncing_.has_value(), "A sync of the log ended that had not begun.");
  committed_ = *syncing_;
  syncing_.reset();
}

void CommitQueue::postpone_sync() {
  check_state(syncing_.has_value(), "A sync of the log was postponed that had not begun.");
  syncing_.reset();
}

void CommitQueue::fail_sync() {
  check_state(syncing_.has_value(), "A sync of the log failed that had not begun.");
  syncing_.reset();
  has_failed_ = true;
}

}  // namespace brigade::coordination

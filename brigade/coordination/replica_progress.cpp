#include "brigade/coordination/replica_progress.h"

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::coordination {
namespace {

// While nobody waits for a replica, it may never have the last record of a busy log. With this many
// missing it is waited for: they are few messages.
constexpr std::int64_t kNear = 64;

}  // namespace

void ReplicaProgress::begin(std::int64_t after) {
  appended_ = after;
  replicated_ = after;
  has_replica_ = true;
  is_required_ = false;
}

void ReplicaProgress::drop() {
  has_replica_ = false;
  is_required_ = false;
}

bool ReplicaProgress::acknowledge(std::int64_t number) {
  check_state(has_replica_, "A replica that has not begun acknowledges records.");
  check_argument(number >= 0 && number <= appended_, "A replica has the records up to ", number,
                 ", and the log has those up to ", appended_, ".");
  replicated_ = std::max(replicated_, number);
  if (!is_required_ && appended_ - replicated_ <= kNear) {
    is_required_ = true;
    required_after_ = appended_;
  }
  return is_required_ && replicated_ >= required_after_;
}

}  // namespace brigade::coordination

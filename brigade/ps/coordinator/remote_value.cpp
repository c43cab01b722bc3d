#include "brigade/ps/coordinator/remote_value.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::ps {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

struct RemoteValue::Slot {
  explicit Slot(const void* who) : owner(who) {}
  const void* const owner;
  concurrency::Mutex mutex;
  concurrency::Condition settled;
  RemoteValueState state BRIGADE_GUARDED_BY(mutex) = RemoteValueState::kPending;
  FunctionData result BRIGADE_GUARDED_BY(mutex);
  std::exception_ptr error BRIGADE_GUARDED_BY(mutex);
};

RemoteValueState RemoteValue::state() const {
  const concurrency::MutexLock lock(slot_->mutex);
  return slot_->state;
}

FunctionData RemoteValue::get(std::optional<std::chrono::milliseconds> timeout) const {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  const Clock::time_point end = Clock::now() + std::min(timeout.value_or(kLongest), kLongest);
  const concurrency::MutexLock lock(slot_->mutex);
  while (slot_->state == RemoteValueState::kPending) {
    if (!timeout) {
      slot_->settled.wait(slot_->mutex);
    } else if (Clock::now() < end) {
      slot_->settled.wait_until(slot_->mutex, end);
    } else {
      throw Error(ErrorCode::kDeadlineExceeded, "A remote value is still pending after ",
                  timeout->count(), " ms: its function waits for a worker, or runs.");
    }
  }
  if (slot_->error) std::rethrow_exception(slot_->error);
  return slot_->result;
}

RemoteResult::RemoteResult(const void* owner) : slot_(std::make_shared<RemoteValue::Slot>(owner)) {}

const void* RemoteResult::owner_of(const RemoteValue& value) {
  return value.slot_->owner;
}

void RemoteResult::set(FunctionData result) {
  const concurrency::MutexLock lock(slot_->mutex);
  slot_->result = std::move(result);
  slot_->state = RemoteValueState::kAvailable;
  slot_->settled.notify_all();
}

void RemoteResult::abort(std::exception_ptr error) const {
  const concurrency::MutexLock lock(slot_->mutex);
  slot_->error = std::move(error);
  slot_->state = RemoteValueState::kAborted;
  slot_->settled.notify_all();
}

}  // namespace brigade::ps

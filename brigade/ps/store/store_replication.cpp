#include "brigade/base/error.h"
#include "brigade/ps/store/parameter_store.h"
#include "brigade/ps/store/store_records.h"
#include "brigade/ps/store/update_record.h"

/// What a store does for its replica, and as one.
namespace brigade::ps {

StoreMoment ParameterStore::moment(const std::function<void(std::int64_t covered)>& begin) {
  // A replica has all records of a creation, or none.
  const concurrency::MutexLock no_creation(creations_);
  return collect(begin);
}

void ParameterStore::follow(std::int64_t first, std::span<const io::SharedBytes> records) {
  const concurrency::MutexLock lock(order_);
  check_usable();
  const std::int64_t next = log_->appended() + 1;
  if (first != next)
    throw Error(ErrorCode::kDataLoss, "The replica of a parameter server received record ", first,
                ", and ", next, " is the next of its log.");
  if (!following_) following_ = std::make_unique<LogReplay>(state_, parameters_);
  for (const io::SharedBytes& each : records) {
    const UpdateRecord record = decode_update(each);
    io::BytePieces bytes;
    bytes.append(each);
    log_change(std::move(bytes));
    try {
      following_->apply(record);
    } catch (...) {
      has_failed_ = true;  // the log has it, and the values may have a part of it
      throw;
    }
  }
}

/// Whether it may be acknowledged.
bool ParameterStore::is_durable(std::int64_t record) const {
  return record <= log_->committed() && (!options_.feed || options_.feed->may_acknowledge(record));
}

}  // namespace brigade::ps

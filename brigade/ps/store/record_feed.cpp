#include "brigade/ps/store/record_feed.h"

#include "brigade/base/error.h"

namespace brigade::ps {

void RecordFeed::append(std::int64_t number, const io::BytePieces& record) noexcept {
  const concurrency::MutexLock lock(mutex_);
  progress_.append(number);
  if (!progress_.has_replica() || is_broken_) return;
  try {
    records_.push_back(record);
    bytes_ += record.size();
  } catch (...) {
    is_broken_ = true;
  }
  // Of the records that wait for the replica each caller has at most two: its last push may have
  // been answered.
  if (!progress_.is_required() && bytes_ > max_bytes_) is_broken_ = true;
  if (is_broken_) forget_records();
  changed_.notify_all();
}

void RecordFeed::forget_records() {
  records_.clear();
  bytes_ = 0;
}

void RecordFeed::wait_replicated(std::int64_t number, Time deadline) {
  const concurrency::MutexLock lock(mutex_);
  while (!progress_.may_acknowledge(number)) {
    if (is_interrupted_)
      throw Error(ErrorCode::kUnavailable,
                  "The parameter server does not act at the moment: its replica may.");
    if (std::chrono::steady_clock::now() >= deadline) {
      // The caller may change the bytes of its records then.
      for (io::BytePieces& each : records_) each.unshare();
      throw Error(ErrorCode::kDeadlineExceeded,
                  "The replica of the parameter server did not have record ", number, " in time.");
    }
    changed_.wait_until(mutex_, deadline);
  }
}

bool RecordFeed::may_acknowledge(std::int64_t number) const {
  const concurrency::MutexLock lock(mutex_);
  return progress_.may_acknowledge(number);
}

void RecordFeed::begin(std::int64_t after) {
  const concurrency::MutexLock lock(mutex_);
  forget_records();
  is_broken_ = false;
  progress_.begin(after);
  changed_.notify_all();
}

void RecordFeed::drop() {
  const concurrency::MutexLock lock(mutex_);
  forget_records();
  progress_.drop();
  changed_.notify_all();
}

std::optional<bool> RecordFeed::acknowledge(std::int64_t number) {
  const concurrency::MutexLock lock(mutex_);
  const bool has_gap = number < progress_.replicated();  // these records are not here any longer
  if (!progress_.has_replica() || is_broken_ || has_gap) return std::nullopt;
  const bool is_complete = progress_.acknowledge(number);
  const auto kept = static_cast<std::size_t>(progress_.appended() - progress_.replicated());
  while (records_.size() > kept) {
    bytes_ -= records_.front().size();
    records_.pop_front();
  }
  changed_.notify_all();
  return is_complete;
}

bool RecordFeed::is_required() const {
  const concurrency::MutexLock lock(mutex_);
  return progress_.is_required();
}

std::vector<io::BytePieces> RecordFeed::take(std::int64_t after, std::uint64_t bytes, Time until) {
  const concurrency::MutexLock lock(mutex_);
  for (;;) {
    if (!progress_.has_replica() || is_broken_ || is_interrupted_) return {};
    const std::int64_t first = progress_.appended() - static_cast<std::int64_t>(records_.size());
    check_argument(after >= first, "The replica asks for records after ", after,
                   ", and had those up to ", first, ".");
    const auto skipped = static_cast<std::size_t>(after - first);
    if (skipped < records_.size()) {
      std::vector<io::BytePieces> taken;
      std::uint64_t total = 0;
      for (std::size_t i = skipped; i < records_.size(); ++i) {
        total += records_[i].size();
        if (!taken.empty() && total > bytes) break;
        taken.push_back(records_[i]);
      }
      return taken;
    }
    if (std::chrono::steady_clock::now() >= until) return {};
    changed_.wait_until(mutex_, until);
  }
}

void RecordFeed::interrupt() {
  const concurrency::MutexLock lock(mutex_);
  is_interrupted_ = true;
  changed_.notify_all();
}

void RecordFeed::resume() {
  const concurrency::MutexLock lock(mutex_);
  is_interrupted_ = false;
}

}  // namespace brigade::ps

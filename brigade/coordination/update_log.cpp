#include "brigade/coordination/update_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/io/atomic_write.h"

namespace brigade::coordination {
namespace {

[[noreturn]] void throw_missing(const io::Path& folder, std::int64_t from, std::int64_t to,
                                std::string_view reason) {
  throw Error(ErrorCode::kDataLoss, "The log of updates in ", folder.string(),
              " lacks the records ", from, " to ", to, reason,
              ": restore the folder from a copy, or start from a checkpoint.");
}

}  // namespace

UpdateLog::UpdateLog(io::FileSystem& files, io::Path folder, std::int64_t after,
                     const Replay& replay, const UpdateLogOptions& options)
    : files_(files), folder_(std::move(folder)), options_(options), queue_(after) {
  io::create_synced_directories(files_, folder_);
  LogFolder found = list_log_folder(files_, folder_);
  const std::int64_t last = replay_segments(found.segments, after, replay);
  // A file that begins with the next record is empty, or has a damaged one.
  std::erase_if(found.segments, [&](const LogSegment& each) {
    if (each.first <= last) return false;
    files_.remove(folder_ / each.file_name());
    return true;
  });
  while (found.spares.size() > options_.spare_files) {
    files_.remove(folder_ / found.spares.back());
    found.spares.pop_back();
  }
  const concurrency::MutexLock lock(mutex_);
  queue_ = CommitQueue(last);
  written_ = last;
  segments_ = std::move(found.segments);
  spares_ = std::move(found.spares);
  begin_segment(last + 1, take_spare());
  segments_.push_back({.first = last + 1});
}

/// The number of the last record.
std::int64_t UpdateLog::replay_segments(std::span<const LogSegment> segments, std::int64_t after,
                                        const Replay& replay) {
  std::int64_t last = after;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const LogSegment& segment = segments[i];
    const bool is_last = i + 1 == segments.size();
    if (!is_last && segments[i + 1].first <= after + 1) continue;
    if (segment.first > last + 1) throw_missing(folder_, last + 1, segment.first - 1, "");
    if (is_last) rewrite_segment(files_, folder_, segment, options_.max_record_bytes);
    const std::int64_t known = last;
    const SegmentEnd end = read_segment(files_, folder_, segment, options_.max_record_bytes,
                                        [&](std::int64_t number, std::string_view record) {
                                          if (number > known) replay(number, record);
                                        });
    last = std::max(last, end.last);
  }
  return last;
}

UpdateLog::~UpdateLog() = default;

std::int64_t UpdateLog::append(io::BytePieces record) {
  check_argument(record.size() <= options_.max_record_bytes, "A record of ", record.size(),
                 " bytes is too long for the log of updates, which takes ",
                 options_.max_record_bytes, " bytes.");
  const concurrency::MutexLock lock(mutex_);
  waiting_.push_back(std::move(record));
  try {
    return queue_.append();
  } catch (...) {
    waiting_.pop_back();
    throw;
  }
}

void UpdateLog::write_pending() {
  std::vector<io::BytePieces> records;
  std::int64_t last = 0;
  {
    const concurrency::MutexLock lock(mutex_);
    if (waiting_.empty()) return;
    const auto mine = queue_.begin_sync();
    if (!mine) return;
    last = *mine;
    records = std::exchange(waiting_, {});
  }
  use_segment([&] { write(records, last); });
  const concurrency::MutexLock lock(mutex_);
  queue_.postpone_sync();
  changed_.notify_all();
}

void UpdateLog::wait_committed(std::int64_t number, Time deadline) {
  std::vector<io::BytePieces> records;
  for (;;) {
    std::int64_t last = 0;
    {
      const concurrency::MutexLock lock(mutex_);
      for (;;) {
        if (queue_.is_committed(number)) return;
        if (queue_.has_failed())
          throw Error(ErrorCode::kDataLoss, "Record ", number, " of the log in ", folder_.string(),
                      " is lost: its disk has failed.");
        if (const auto mine = queue_.begin_sync()) {
          last = *mine;
          break;
        }
        if (!changed_.wait_until(mutex_, deadline) && !queue_.is_committed(number)) {
          stop_sharing(number);
          throw Error(ErrorCode::kDeadlineExceeded, "Record ", number, " of the log in ",
                      folder_.string(), " was not on the disk in time.");
        }
      }
      records = std::exchange(waiting_, {});
    }
    use_segment([&] { write_and_sync(records, last); });
  }
}

/// `work` uses the file, as the one thread that may. If it throws, the log has failed.
template <class Work>
void UpdateLog::use_segment(const Work& work) {
  try {
    work();
  } catch (...) {
    const concurrency::MutexLock lock(mutex_);
    queue_.fail_sync();
    changed_.notify_all();
    throw;
  }
}

/// A caller that no longer waits for its record may change its bytes: the log copies them before
/// that, or has written them.
void UpdateLog::stop_sharing(std::int64_t number) {
  const auto later = static_cast<std::size_t>(queue_.appended() - number);
  if (later < waiting_.size()) return waiting_[waiting_.size() - 1 - later].unshare();
  while (written_ < number && !queue_.has_failed()) changed_.wait(mutex_);
}

/// Without the mutex: others append meanwhile.
void UpdateLog::write(const std::vector<io::BytePieces>& records, std::int64_t last) {
  std::int64_t number = last - static_cast<std::int64_t>(records.size());
  for (const io::BytePieces& record : records) segment_->write(++number, record);
  const concurrency::MutexLock lock(mutex_);
  written_ = last;
  changed_.notify_all();
}

void UpdateLog::write_and_sync(const std::vector<io::BytePieces>& records, std::int64_t last) {
  write(records, last);
  const auto begin = std::chrono::steady_clock::now();
  segment_->sync();
  if (options_.on_sync) options_.on_sync(std::chrono::steady_clock::now() - begin);
  const bool is_full = segment_->bytes() >= options_.segment_bytes;
  if (is_full) {
    segment_->close();
    begin_segment(last + 1, next_spare());
  }
  const concurrency::MutexLock lock(mutex_);
  if (is_full) segments_.push_back({.first = last + 1});
  queue_.finish_sync();
  changed_.notify_all();
}

std::optional<std::string> UpdateLog::next_spare() {
  const concurrency::MutexLock lock(mutex_);
  return take_spare();
}

std::optional<std::string> UpdateLog::take_spare() {
  if (spares_.empty()) return std::nullopt;
  std::string name = std::move(spares_.back());
  spares_.pop_back();
  return name;
}

/// The names are on the disk before the file gets a record.
void UpdateLog::begin_segment(std::int64_t first, const std::optional<std::string>& spare) {
  const io::Path path = folder_ / LogSegment{.first = first}.file_name();
  if (spare) files_.rename(folder_ / *spare, path);
  segment_ = std::make_unique<SegmentWriter>(files_, path);
  files_.sync_directory(folder_);
}

void UpdateLog::remove_up_to(std::int64_t number) {
  std::vector<LogSegment> removed;
  std::size_t room = 0;
  {
    const concurrency::MutexLock lock(mutex_);
    // A file ends where the next begins.
    while (segments_.size() > 1 && segments_[1].first <= number + 1) {
      removed.push_back(segments_.front());
      segments_.erase(segments_.begin());
    }
    room = options_.spare_files - std::min(options_.spare_files, spares_.size());
  }
  if (removed.empty()) return;
  std::vector<std::string> spares;
  for (const LogSegment& each : removed) {
    const io::Path path = folder_ / each.file_name();
    // Without numbers, what is left of old records may look like new ones.
    if (each.has_numbers && spares.size() < room)
      files_.rename(path, folder_ / spares.emplace_back(each.spare_name()));
    else
      files_.remove(path);
  }
  files_.sync_directory(folder_);
  const concurrency::MutexLock lock(mutex_);
  std::ranges::move(spares, std::back_inserter(spares_));
}

std::int64_t UpdateLog::appended() const {
  const concurrency::MutexLock lock(mutex_);
  return queue_.appended();
}

bool UpdateLog::has_failed() const {
  const concurrency::MutexLock lock(mutex_);
  return queue_.has_failed();
}

std::int64_t UpdateLog::committed() const {
  const concurrency::MutexLock lock(mutex_);
  return queue_.committed();
}

}  // namespace brigade::coordination

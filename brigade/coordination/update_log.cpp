#include "brigade/coordination/update_log.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/record_reader.h"
#include "brigade/io/record_writer.h"

namespace brigade::coordination {
namespace {

constexpr std::string_view kPrefix = "updates-";
constexpr std::size_t kDigits = 20;  // as many as the largest number has: names sort by number

std::string file_name(std::int64_t first) {
  const std::string digits = std::to_string(first);
  return base::str_cat(kPrefix, std::string(kDigits - digits.size(), '0'), digits);
}

/// The number of a file's first record, or nothing for a file that is no part of the log.
std::optional<std::int64_t> first_record_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kDigits) return std::nullopt;
  std::int64_t first = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, first);
  if (error != std::errc() || stop != end || first < 1) return std::nullopt;
  return first;
}

std::vector<std::int64_t> find_segments(const io::FileSystem& files, const io::Path& folder) {
  std::vector<std::int64_t> found;
  for (const std::string& name : files.list(folder))
    if (const auto first = first_record_of(name)) found.push_back(*first);
  std::ranges::sort(found);
  return found;
}

[[noreturn]] void throw_missing(const io::Path& folder, std::int64_t from, std::int64_t to,
                                std::string_view reason) {
  throw Error(
      ErrorCode::kDataLoss,
      base::str_cat("The log of updates in ", folder.string(), " lacks the records ", from, " to ",
                    to, reason, ": restore the folder from a copy, or start from a checkpoint."));
}

/// Whether all bytes of a file can be read: then a record that is damaged was never written whole.
/// Throws as `FileSystem`.
void check_readable(const io::FileSystem& files, const io::Path& path) {
  const auto file = files.open(path);
  std::vector<std::byte> buffer(1 << 20);
  while (file->read(buffer) == buffer.size()) {
  }
}

struct SegmentEnd {
  std::int64_t last = 0;  // the number of the last record
  bool is_damaged = false;
};

/// Reads the records of one file up to its end, or to the first one that a crash left incomplete:
/// sectors that were not synced may hold anything. Whether a record that matters is lost is seen by
/// the numbers: the next file begins where this one was known to end.
SegmentEnd read_segment(const io::FileSystem& files, const io::Path& path, std::int64_t first,
                        std::uint64_t max_record_bytes, const UpdateLog::Replay& receive) {
  io::RecordReader reader(files, path, {.max_record_bytes = max_record_bytes});
  for (std::int64_t number = first;; ++number) {
    std::optional<std::string> record;
    bool is_damaged = false;
    try {
      record = reader.next();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDataLoss) throw;
      check_readable(files, path);
      is_damaged = true;
      base::log_warning(
          base::str_cat("The log of updates ends at a damaged record, which was not committed "
                        "unless the disk has lost data: ",
                        error.what()));
    }
    if (!record) return {.last = number - 1, .is_damaged = is_damaged};
    receive(number, *record);
  }
}

/// Writes the records of one file anew. Those that a process wrote and did not live to sync may be
/// in memory alone, and after a failed sync they may seem to be on the disk. A file with a damaged
/// record is kept aside: it may hold more than a crash explains.
void rewrite_segment(io::FileSystem& files, const io::Path& path, std::int64_t first,
                     std::uint64_t max_record_bytes) {
  const auto ignore = [](std::int64_t, std::string_view) {};
  if (read_segment(files, path, first, max_record_bytes, ignore).is_damaged)
    io::atomic_write(files, io::Path(path) += ".damaged", files.read(path));
  io::atomic_write(files, path, [&](std::unique_ptr<io::WritableFile> file) {
    io::RecordWriter writer(std::move(file));
    read_segment(files, path, first, max_record_bytes, [&](std::int64_t, std::string_view record) {
      writer.write(io::as_bytes(record));
    });
    writer.sync();
  });
}

}  // namespace

/// One file of the log, being written.
class UpdateLog::Segment {
 public:
  Segment(io::FileSystem& files, const io::Path& path)
      : writer_(files.create(path, io::CreateMode::kTruncate)) {}
  void write(const io::BytePieces& record) {
    writer_.write_pieces(record);
    bytes_ += record.size();
  }
  void sync() { writer_.sync(); }
  void close() { writer_.close(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  io::RecordWriter writer_;
  std::uint64_t bytes_ = 0;
};

UpdateLog::UpdateLog(io::FileSystem& files, io::Path folder, std::int64_t after,
                     const Replay& replay, const UpdateLogOptions& options)
    : files_(files), folder_(std::move(folder)), options_(options), queue_(after) {
  io::create_synced_directories(files_, folder_);
  const std::vector<std::int64_t> found = find_segments(files_, folder_);
  std::int64_t last = after;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool is_needed = i + 1 == found.size() || found[i + 1] > after + 1;
    if (!is_needed) continue;
    if (found[i] > last + 1) throw_missing(folder_, last + 1, found[i] - 1, "");
    const io::Path path = folder_ / file_name(found[i]);
    if (i + 1 == found.size()) rewrite_segment(files_, path, found[i], options_.max_record_bytes);
    const std::int64_t known = last;
    const SegmentEnd end = read_segment(files_, path, found[i], options_.max_record_bytes,
                                        [&](std::int64_t number, std::string_view record) {
                                          if (number > known) replay(number, record);
                                        });
    last = std::max(last, end.last);
  }
  const concurrency::MutexLock lock(mutex_);
  queue_ = CommitQueue(last);
  written_ = last;
  // A file that begins with the next record is empty, or has a damaged one: it is written anew.
  std::ranges::copy_if(found, std::back_inserter(first_records_),
                       [&](std::int64_t first) { return first <= last; });
  begin_segment(last + 1);
  first_records_.push_back(last + 1);
}

UpdateLog::~UpdateLog() = default;

std::int64_t UpdateLog::append(io::BytePieces record) {
  check_argument(record.size() <= options_.max_record_bytes,
                 base::str_cat("A record of ", record.size(),
                               " bytes is too long for the log of updates, which takes ",
                               options_.max_record_bytes, " bytes."));
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
          throw Error(ErrorCode::kDataLoss,
                      base::str_cat("Record ", number, " of the log in ", folder_.string(),
                                    " is lost: its disk has failed."));
        if (const auto mine = queue_.begin_sync()) {
          last = *mine;
          break;
        }
        if (!changed_.wait_until(mutex_, deadline) && !queue_.is_committed(number)) {
          give_up_sharing(number);
          throw Error(ErrorCode::kDeadlineExceeded,
                      base::str_cat("Record ", number, " of the log in ", folder_.string(),
                                    " was not on the disk in time."));
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

/// A caller that no longer waits for its record may change the bytes: the log has its own then, or
/// has written them.
void UpdateLog::give_up_sharing(std::int64_t number) {
  const auto later = static_cast<std::size_t>(queue_.appended() - number);
  if (later < waiting_.size()) return waiting_[waiting_.size() - 1 - later].unshare();
  while (written_ < number && !queue_.has_failed()) changed_.wait(mutex_);
}

/// Without the mutex: others append meanwhile.
void UpdateLog::write(const std::vector<io::BytePieces>& records, std::int64_t last) {
  for (const io::BytePieces& record : records) segment_->write(record);
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
    begin_segment(last + 1);
  }
  const concurrency::MutexLock lock(mutex_);
  if (is_full) first_records_.push_back(last + 1);
  queue_.finish_sync();
  changed_.notify_all();
}

void UpdateLog::begin_segment(std::int64_t first) {
  segment_ = std::make_unique<Segment>(files_, folder_ / file_name(first));
  files_.sync_directory(folder_);
}

void UpdateLog::remove_up_to(std::int64_t number) {
  std::vector<std::int64_t> removed;
  {
    const concurrency::MutexLock lock(mutex_);
    // A file ends where the next begins.
    while (first_records_.size() > 1 && first_records_[1] <= number + 1) {
      removed.push_back(first_records_.front());
      first_records_.erase(first_records_.begin());
    }
  }
  for (const std::int64_t first : removed) files_.remove(folder_ / file_name(first));
  if (!removed.empty()) files_.sync_directory(folder_);
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

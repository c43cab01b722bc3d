#include "brigade/coordination/log_segment.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/record_framing.h"
#include "brigade/io/record_reader.h"

namespace brigade::coordination {
namespace {

constexpr std::string_view kNumbered = "records-";
constexpr std::string_view kUnnumbered = "updates-";
constexpr std::string_view kSpare = "spare-";
constexpr std::size_t kDigits = 20;  // as many as the largest number has: names sort by number
constexpr std::size_t kNumberBytes = 8;

std::string name_of(std::string_view prefix, std::int64_t first) {
  const std::string digits = std::to_string(first);
  return base::str_cat(prefix, std::string(kDigits - digits.size(), '0'), digits);
}

/// The number in a name that begins with `prefix`, or nothing for other names.
std::optional<std::int64_t> number_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() != prefix.size() + kDigits) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, number);
  if (error != std::errc() || stop != end || number < 1) return std::nullopt;
  return number;
}

std::string encoded_number(std::int64_t number) {
  std::string bytes(kNumberBytes, '\0');
  io::record_framing::store_little_endian(static_cast<std::uint64_t>(number),
                                          std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::optional<std::int64_t> decoded_number(std::string_view record) {
  if (record.size() < kNumberBytes) return std::nullopt;
  return static_cast<std::int64_t>(
      io::record_framing::load_little_endian(io::as_bytes(record.substr(0, kNumberBytes))));
}

/// Whether all bytes of a file can be read: then a record that is damaged was never written whole.
/// Throws as `FileSystem`.
void check_readable(const io::FileSystem& files, const io::Path& path) {
  const auto file = files.open(path);
  std::vector<std::byte> buffer(1 << 20);
  while (file->read(buffer) == buffer.size()) {
  }
}

void warn_of_damage(std::string_view what) {
  base::log_warning(
      "The log of updates ends at a damaged record, which was not committed unless the disk has "
      "lost data: ",
      what);
}

/// Whether the record after a damaged one is a later one of the log: not an old one of a file that
/// is used again.
bool is_followed_by_later(io::RecordReader& reader, std::int64_t damaged) {
  try {
    if (!reader.skip()) return false;
    const auto next = reader.next();
    return next && decoded_number(*next).value_or(0) > damaged;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss && error.code() != ErrorCode::kResourceExhausted)
      throw;
    return false;
  }
}

}  // namespace

std::string LogSegment::file_name() const {
  return name_of(has_numbers ? kNumbered : kUnnumbered, first);
}

std::string LogSegment::spare_name() const {
  return name_of(kSpare, first);
}

LogFolder list_log_folder(const io::FileSystem& files, const io::Path& folder) {
  LogFolder found;
  for (const std::string& name : files.list(folder)) {
    if (const auto first = number_in(name, kNumbered))
      found.segments.push_back({.first = *first, .has_numbers = true});
    else if (const auto old = number_in(name, kUnnumbered))
      found.segments.push_back({.first = *old, .has_numbers = false});
    else if (number_in(name, kSpare))
      found.spares.push_back(name);
  }
  std::ranges::stable_sort(found.segments, {}, &LogSegment::first);
  return found;
}

SegmentEnd read_segment(const io::FileSystem& files, const io::Path& folder,
                        const LogSegment& segment, std::uint64_t max_record_bytes,
                        const ReceiveRecord& receive) {
  const io::Path path = folder / segment.file_name();
  const std::size_t prefix = segment.has_numbers ? kNumberBytes : 0;
  io::RecordReader reader(files, path, {.max_record_bytes = max_record_bytes + prefix});
  for (std::int64_t number = segment.first;; ++number) {
    std::optional<std::string> record;
    SegmentEnd end{.last = number - 1, .is_damaged = false};
    try {
      record = reader.next();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDataLoss) throw;
      check_readable(files, path);
      end.is_damaged = !segment.has_numbers || is_followed_by_later(reader, number);
      if (end.is_damaged) warn_of_damage(error.what());
    }
    if (!record) return end;
    const std::int64_t stored = segment.has_numbers ? decoded_number(*record).value_or(0) : number;
    if (stored != number) {  // most likely an old one, from before the file was used again
      end.is_damaged = stored > number;
      if (end.is_damaged)
        warn_of_damage(base::str_cat(path, " has record ", stored, " in place of ", number, "."));
      return end;
    }
    receive(number, std::string_view(*record).substr(prefix));
  }
}

void rewrite_segment(io::FileSystem& files, const io::Path& folder, const LogSegment& segment,
                     std::uint64_t max_record_bytes) {
  const io::Path path = folder / segment.file_name();
  const auto ignore = [](std::int64_t, std::string_view) {};
  if (read_segment(files, folder, segment, max_record_bytes, ignore).is_damaged)
    io::atomic_write(files, io::Path(path) += ".damaged", files.read(path));
  io::atomic_write(files, path, [&](std::unique_ptr<io::WritableFile> file) {
    io::RecordWriter writer(std::move(file));
    read_segment(files, folder, segment, max_record_bytes,
                 [&](std::int64_t number, std::string_view record) {
                   const std::string prefix = segment.has_numbers ? encoded_number(number) : "";
                   writer.write(io::as_bytes(base::str_cat(prefix, record)));
                 });
    writer.sync();
  });
}

SegmentWriter::SegmentWriter(io::FileSystem& files, const io::Path& path)
    : writer_(files.create(path, io::CreateMode::kOverwrite)) {}

void SegmentWriter::write(std::int64_t number, const io::BytePieces& record) {
  io::BytePieces numbered(encoded_number(number));
  for (const io::SharedBytes& piece : record.pieces()) numbered.append(piece);
  writer_.write_pieces(numbered);
  bytes_ += record.size();
}

}  // namespace brigade::coordination

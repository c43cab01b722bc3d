#include "brigade/io/record_reader.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/io/record_framing.h"

namespace brigade::io {

using namespace record_framing;

namespace {

constexpr std::uint64_t kNeverMore = std::uint64_t{1} << 40;  // keeps sums of sizes far below 2^64

}  // namespace

RecordReader::RecordReader(const FileSystem& files, Path path, RecordReaderOptions options)
    : path_(std::move(path)),
      max_record_bytes_(std::min(options.max_record_bytes, kNeverMore)),
      bytes_(files, path_,
             {.compression = options.compression, .buffer_bytes = options.buffer_bytes}) {}

void RecordReader::fail_sum(std::string_view part) const {
  throw Error(ErrorCode::kDataLoss, path_, ": the checksum of the ", part,
              " of the record at byte ", offset(),
              " is wrong: the file is corrupt there, or is not a file of records");
}

std::uint64_t RecordReader::checked_length(std::string_view head) const {
  const auto bytes = as_bytes(head);
  const auto length = bytes.first(kLengthBytes);
  if (load_little_endian(bytes.subspan(kLengthBytes, kSumBytes)) != stored_sum(length)) {
    fail_sum("length");
  }
  return load_little_endian(length);
}

void RecordReader::check_allowed(std::uint64_t length) const {
  if (length <= max_record_bytes_) return;
  throw Error(ErrorCode::kResourceExhausted, path_, ": the record at byte ", offset(), " has ",
              length, " bytes, more than the ", max_record_bytes_,
              " allowed; raise max_record_bytes to read it");
}

/// The next `size` bytes, or none if the file ends before.
std::string_view RecordReader::peek(std::uint64_t size) {
  const std::string_view seen = bytes_.peek(size);
  is_cut_short_ = seen.size() < size && !seen.empty();
  return seen.size() < size ? std::string_view() : seen.substr(0, size);
}

std::optional<std::string> RecordReader::next() {
  const std::string_view head = peek(kHeadBytes);
  if (head.empty()) return std::nullopt;
  const std::uint64_t length = checked_length(head);
  check_allowed(length);
  const std::uint64_t whole = kHeadBytes + length + kSumBytes;
  const std::string_view record = peek(whole);
  if (record.empty()) return std::nullopt;
  const std::string_view data = record.substr(kHeadBytes, length);
  const auto sum = as_bytes(record.substr(kHeadBytes + length));
  if (load_little_endian(sum) != stored_sum(as_bytes(data))) fail_sum("bytes");
  bytes_.consume(whole);
  return std::string(data);
}

bool RecordReader::skip() {
  const std::string_view head = peek(kHeadBytes);
  if (head.empty()) return false;
  const std::uint64_t length = checked_length(head);
  is_cut_short_ = length > kNeverMore || !bytes_.skip(kHeadBytes + length + kSumBytes);
  return !is_cut_short_;
}

}  // namespace brigade::io

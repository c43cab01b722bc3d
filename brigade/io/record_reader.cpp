#include "brigade/io/record_reader.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/record_framing.h"

namespace brigade::io {

using base::str_cat;
using namespace record_framing;

RecordReader::RecordReader(const FileSystem& files, Path path, RecordReaderOptions options)
    : path_(std::move(path)), options_(options), file_(files.open(path_)) {
  constexpr std::uint64_t kNeverMore = std::uint64_t{1} << 40;  // sums of sizes stay far from 2^64
  options_.max_record_bytes = std::min(options_.max_record_bytes, kNeverMore);
}

/// Reads until `size` bytes of the record are there; false if the file ends before.
bool RecordReader::fill(std::uint64_t size) {
  // In steps, so that a length that the file does not live up to costs no memory.
  constexpr std::uint64_t kStep = 1 << 20;
  while (pending_.size() < size) {
    const std::size_t before = pending_.size();
    pending_.resize(before + std::min(size - before, kStep));
    const std::size_t wanted = pending_.size() - before;
    const std::size_t got = file_->read(std::span(pending_).subspan(before));
    pending_.resize(before + got);
    if (got < wanted) return false;
  }
  return true;
}

void RecordReader::fail_sum(std::string_view part) const {
  throw Error(ErrorCode::kDataLoss,
              str_cat(path_, ": the checksum of the ", part, " of the record at byte ", offset_,
                      " is wrong: the file is broken there, or is no file of records"));
}

std::uint64_t RecordReader::checked_length() const {
  const std::span<const std::byte> head(pending_);
  const auto length = head.first(kLengthBytes);
  if (load_little_endian(head.subspan(kLengthBytes, kSumBytes)) != stored_sum(length)) {
    fail_sum("length");
  }
  const std::uint64_t size = load_little_endian(length);
  if (size > options_.max_record_bytes) {
    throw Error(ErrorCode::kResourceExhausted,
                str_cat(path_, ": the record at byte ", offset_, " has ", size,
                        " bytes, more than the ", options_.max_record_bytes,
                        " allowed; raise RecordReaderOptions::max_record_bytes if it is wanted"));
  }
  return size;
}

std::optional<std::string> RecordReader::next() {
  if (!fill(kHeadBytes)) return std::nullopt;
  const std::uint64_t length = checked_length();
  const std::uint64_t whole = kHeadBytes + length + kSumBytes;
  if (!fill(whole)) return std::nullopt;
  const auto data = std::span<const std::byte>(pending_).subspan(kHeadBytes, length);
  const auto sum = std::span<const std::byte>(pending_).subspan(kHeadBytes + length);
  if (load_little_endian(sum) != stored_sum(data)) fail_sum("bytes");
  std::string record(reinterpret_cast<const char*>(data.data()), data.size());
  offset_ += whole;
  pending_.clear();
  return record;
}

}  // namespace brigade::io

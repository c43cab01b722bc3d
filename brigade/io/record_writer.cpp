#include "brigade/io/record_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "brigade/io/record_framing.h"

namespace brigade::io {

using namespace record_framing;

namespace {

// Longer bytes are written from where they are: a copy would cost more than a system call.
constexpr std::size_t kLongBytes = 64 << 10;
// So many are in the cache of a core when they are written after their checksum was made.
constexpr std::size_t kChunkBytes = 256 << 10;

}  // namespace

RecordWriter::RecordWriter(std::unique_ptr<WritableFile> file, RecordWriterOptions options)
    : file_(std::move(file)), buffer_bytes_(options.buffer_bytes) {
  check_argument(file_ != nullptr, "RecordWriter: needs a file to write into");
}

RecordWriter::~RecordWriter() {
  try {
    close();
  } catch (const Error&) {  // call `close` to get the error
  }
}

template <class Action>
void RecordWriter::guarded(Action action) {
  if (failure_) throw *failure_;
  check_state(file_ != nullptr, "RecordWriter: already closed; make a new one for a new file");
  try {
    action();
  } catch (const Error& error) {
    failure_ = error;
    throw;
  }
}

void RecordWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() >= kLongBytes) {
    drain();
    file_->write(bytes);
    return;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void RecordWriter::drain() {
  if (buffer_.empty()) return;
  file_->write(buffer_);
  buffer_.clear();
}

void RecordWriter::begin_record(std::uint64_t length) {
  std::array<std::byte, kHeadBytes> head;
  const auto stored = std::span(head).first(kLengthBytes);
  store_little_endian(length, stored);
  store_little_endian(stored_sum(stored), std::span(head).subspan(kLengthBytes));
  append(head);
}

void RecordWriter::end_record(std::uint32_t sum) {
  std::array<std::byte, kSumBytes> tail;
  store_little_endian(mask_crc32c(sum), tail);
  append(tail);
  if (buffer_.size() >= buffer_bytes_) drain();
}

void RecordWriter::write(std::span<const std::byte> record) {
  guarded([&] {
    begin_record(record.size());
    append(record);
    end_record(crc32c(record));
  });
}

void RecordWriter::write_pieces(const BytePieces& record) {
  guarded([&] {
    begin_record(record.size());
    std::uint32_t sum = 0;
    for (const SharedBytes& piece : record.pieces()) {
      for (auto left = as_bytes(piece.bytes); !left.empty();) {
        const auto chunk = left.first(std::min(left.size(), kChunkBytes));
        left = left.subspan(chunk.size());
        sum = extend_crc32c(sum, chunk);
        append(chunk);
      }
    }
    end_record(sum);
  });
}

void RecordWriter::flush() {
  guarded([&] { drain(); });
}

void RecordWriter::sync() {
  guarded([&] {
    drain();
    file_->sync();
  });
}

void RecordWriter::close() {
  if (file_ == nullptr) return;
  if (failure_) {  // already thrown when it happened
    file_.reset();
    return;
  }
  const std::unique_ptr<WritableFile> file = std::move(file_);
  if (!buffer_.empty()) file->write(buffer_);
  file->close();
}

}  // namespace brigade::io

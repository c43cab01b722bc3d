#include "brigade/io/record_writer.h"

#include <array>
#include <utility>

#include "brigade/io/record_framing.h"

namespace brigade::io {

using namespace record_framing;

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
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void RecordWriter::drain() {
  if (buffer_.empty()) return;
  file_->write(buffer_);
  buffer_.clear();
}

void RecordWriter::write(std::span<const std::byte> record) {
  guarded([&] {
    std::array<std::byte, kHeadBytes> head;
    const auto length = std::span(head).first(kLengthBytes);
    store_little_endian(record.size(), length);
    store_little_endian(stored_sum(length), std::span(head).subspan(kLengthBytes));
    std::array<std::byte, kSumBytes> tail;
    store_little_endian(stored_sum(record), tail);
    append(head);
    append(record);
    append(tail);
    if (buffer_.size() >= buffer_bytes_) drain();
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

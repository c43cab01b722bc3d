#include "brigade/data/sources/element_writer.h"

#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/codec.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/compression.h"
#include "brigade/io/own_files.h"
#include "brigade/io/record_framing.h"

namespace brigade::data::internal {
namespace {

/// What is closed is on the disk, the end that a compressor writes included.
class SyncedByClose final : public io::WritableFile {
 public:
  explicit SyncedByClose(std::unique_ptr<io::WritableFile> file) : file_(std::move(file)) {}
  void write(std::span<const std::byte> bytes) override { file_->write(bytes); }
  void sync() override { file_->sync(); }
  void close() override {
    file_->sync();
    file_->close();
  }

 private:
  std::unique_ptr<io::WritableFile> file_;
};

bool is_element_file(std::string_view name) {
  const bool is_part =
      name.starts_with("elements-") && (name.ends_with(".records") || name.ends_with(".offsets"));
  const bool is_half_an_index = name.starts_with(".index.json.") && name.ends_with(".tmp");
  return is_part || is_half_an_index || name == "index.json";
}

io::Path without_slash(const io::Path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

ElementWriter::ElementWriter(std::shared_ptr<io::FileSystem> files, io::Path folder,
                             ElementIndex index)
    : files_(std::move(files)), folder_(without_slash(folder)), index_(std::move(index)) {
  index_.count = 0;
  parts_.resize(index_.files);
  try {
    make_folder();
  } catch (...) {
    remove();
    throw;
  }
}

ElementWriter::~ElementWriter() {
  if (!is_done_) remove();
}

std::unique_ptr<io::WritableFile> ElementWriter::create(const io::Path& path, io::CreateMode mode) {
  return std::make_unique<SyncedByClose>(files_->create(path, mode));
}

/// Finds an unused name and reserves it by creating the folder's first file.
void ElementWriter::make_folder() {
  constexpr int kAttempts = 1000;
  files_->create_directories(folder_.parent_path());
  std::unique_ptr<io::WritableFile> first;
  for (int n = 0; !first; ++n) {
    const io::Path name =
        base::str_cat(".", folder_.filename().string(), ".", ::getpid(), ".", n, ".tmp");
    const io::Path attempt = folder_.parent_path() / name;
    try {
      files_->create_directory(attempt);
      first = create(records_path(attempt, 0, index_.files), io::CreateMode::kExclusive);
      temporary_ = attempt;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kAlreadyExists || n + 1 == kAttempts) throw;
    }
  }
  for (std::uint64_t file = 0; file < index_.files; ++file) {
    auto plain =
        file == 0 ? std::move(first)
                  : create(records_path(temporary_, file, index_.files), io::CreateMode::kTruncate);
    parts_[file] = {
        std::make_unique<io::RecordWriter>(io::compressed(std::move(plain), index_.compression)),
        {0}};
  }
}

void ElementWriter::write(std::string_view element) {
  File& part = parts_[index_.count % index_.files];
  part.records->write(io::as_bytes(element));
  const std::uint64_t frame = io::record_framing::kHeadBytes + io::record_framing::kSumBytes;
  part.offsets.push_back(part.offsets.back() + element.size() + frame);
  ++index_.count;
}

void ElementWriter::write_offsets(std::uint64_t file) {
  io::RecordWriter table(
      create(offsets_path(temporary_, file, index_.files), io::CreateMode::kTruncate));
  const std::vector<std::uint64_t>& offsets = parts_[file].offsets;
  for (std::size_t begin = 0; begin < offsets.size(); begin += kOffsetsPerRecord) {
    const std::size_t end = std::min(begin + kOffsetsPerRecord, offsets.size());
    const std::vector<std::uint64_t> some(&offsets[begin], &offsets[begin] + (end - begin));
    table.write(io::as_bytes(encode(some)));
  }
  table.close();
}

ElementWriter::Commit ElementWriter::commit() {
  for (std::uint64_t file = 0; file < index_.files; ++file) {
    parts_[file].records->close();
    write_offsets(file);
  }
  io::atomic_write(*files_, index_path(temporary_), index_text(index_));
  try {
    files_->rename(temporary_, folder_);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kAlreadyExists || !find_index(*files_, folder_)) throw;
    return Commit::kLost;
  }
  is_done_ = true;
  files_->sync_directory(folder_.parent_path());
  return Commit::kDone;
}

void ElementWriter::remove() noexcept {
  parts_.clear();
  if (temporary_.empty()) return;
  try {
    io::remove_own_folder(*files_, temporary_, is_element_file);
  } catch (const Error&) {  // remaining files are never read
  }
}

}  // namespace brigade::data::internal

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"
#include "brigade/io/record_writer.h"
#include "brigade/io/testing/memory_file_system.h"

/// Small files to read from. For tests only.
namespace brigade::data::testing {

/// A file system in memory with a folder "/f", filled by tests.
///
/// Thread-safety: one thread at a time.
class Folder {
 public:
  Folder() { files_->create_directories("/f"); }

  /// Writes a file and returns its path.
  io::Path write(std::string_view name, std::string_view content,
                 io::Compression compression = io::Compression::kNone) {
    const io::Path path = io::Path("/f") / name;
    const auto file = io::compressed(files_->create(path, io::CreateMode::kTruncate), compression);
    file->write(io::as_bytes(content));
    file->close();
    return path;
  }
  std::string read(const io::Path& path) const { return files_->read(path); }
  const std::shared_ptr<io::MemoryFileSystem>& files() const { return files_; }

 private:
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
};

/// The bytes of a file of records.
inline std::string framed(const std::vector<std::string>& records) {
  io::MemoryFileSystem files;
  io::RecordWriter writer(files.create("/records", io::CreateMode::kTruncate));
  for (const std::string& record : records) writer.write(io::as_bytes(record));
  writer.close();
  return files.read("/records");
}

}  // namespace brigade::data::testing

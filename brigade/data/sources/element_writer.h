#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "brigade/data/sources/element_files.h"
#include "brigade/io/file_system.h"
#include "brigade/io/record_writer.h"

namespace brigade::data::internal {

/// Writes a folder of elements under a temporary name and renames it when it is complete: a reader
/// sees all of it or nothing, and of several concurrent writers one wins. An uncommitted folder is
/// removed; only a crash can leave it (`.<name>.<process>.<n>.tmp`), and it is never read.
///
/// Thread-safety: one thread at a time.
class ElementWriter {
 public:
  enum class Commit {
    kDone,
    kLost,  ///< Another writer committed first: the folder exists already.
  };

  /// `index` holds everything but the count. Creates parent folders.
  ElementWriter(std::shared_ptr<io::FileSystem> files, io::Path folder, ElementIndex index);
  ~ElementWriter();
  ElementWriter(const ElementWriter&) = delete;
  ElementWriter& operator=(const ElementWriter&) = delete;

  /// Adds an element. Throws as `FileSystem` does.
  void write(std::string_view element);
  std::uint64_t count() const { return index_.count; }
  /// Returns once everything is on disk. Throws kAlreadyExists if the path exists and is not a
  /// folder of elements.
  Commit commit();

 private:
  struct File {
    std::unique_ptr<io::RecordWriter> records;
    std::vector<std::uint64_t> offsets;  // of the records, followed by the end
  };
  void make_folder();
  std::unique_ptr<io::WritableFile> create(const io::Path& path, io::CreateMode mode);
  void write_offsets(std::uint64_t file);
  void remove() noexcept;

  std::shared_ptr<io::FileSystem> files_;
  io::Path folder_;
  io::Path temporary_;
  ElementIndex index_;
  std::vector<File> parts_;
  bool is_done_ = false;
};

}  // namespace brigade::data::internal

#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "brigade/data/core/element_index.h"
#include "brigade/io/file_system.h"
#include "brigade/io/record_writer.h"

namespace brigade::data::internal {

/// Writes a folder of elements beside the place where it shall be, and puts it there when it is
/// complete: a reader sees all of it or nothing, and of several writers at once one wins. What is
/// not committed is removed; only a crash can leave it behind (`.<name>.<process>.<n>.tmp`), and
/// nobody reads that.
///
/// Thread-safety: one thread at a time.
class ElementWriter {
 public:
  enum class Commit {
    kDone,
    kLost,  ///< Another one has come first: there is a folder of elements already.
  };

  /// `index` says all but the count. Makes the folders above.
  ElementWriter(std::shared_ptr<io::FileSystem> files, io::Path folder, ElementIndex index);
  ~ElementWriter();
  ElementWriter(const ElementWriter&) = delete;
  ElementWriter& operator=(const ElementWriter&) = delete;

  /// Adds an element. Throws as `FileSystem` does.
  void write(std::string_view element);
  std::uint64_t count() const { return index_.count; }
  /// Returns once everything is on the disk. Throws kAlreadyExists if something else than elements
  /// is in the way.
  Commit commit();

 private:
  struct File {
    std::unique_ptr<io::RecordWriter> records;
    std::vector<std::uint64_t> offsets;  // of the records, and behind them the end
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

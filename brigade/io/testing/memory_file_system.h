#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// A file system in memory, for tests. It tracks which data was synced, so that a test can simulate
/// a crash of the machine: `drop_unsynced`. As POSIX allows, syncing a file preserves its content,
/// but not its name: that needs `sync_directory`. Folders themselves are always preserved.
///
/// Relative paths count from "/", the only folder at the start. There are no links and no
/// permissions.
///
/// Thread-safety: all functions from any thread.
class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();

  std::string read(const Path& path) const override;
  std::unique_ptr<ReadableFile> open(const Path& path) const override;
  std::unique_ptr<WritableFile> create(const Path& path, CreateMode mode) override;
  void rename(const Path& from, const Path& to) override;
  bool remove(const Path& path) override;
  std::optional<FileInfo> info(const Path& path) const override;
  std::vector<std::string> list(const Path& directory) const override;
  void create_directories(const Path& directory) override;
  void sync_directory(const Path& directory) override;

  /// Simulates a crash of the machine: every name and every content reverts to its last sync.
  void drop_unsynced();

 private:
  struct Content;
  class Reader;
  class Writer;
  using Files = std::map<std::string, std::shared_ptr<Content>>;
  // These expect mutex_ to be held.
  const std::shared_ptr<Content>& file_at(const std::string& path) const;
  bool is_directory(const std::string& path) const { return directories_.count(path) > 0; }
  bool is_empty_directory(const std::string& path) const;
  void rename_directory(const std::string& from, const std::string& to);

  mutable std::mutex mutex_;  // guards all below, and the contents
  std::set<std::string> directories_;
  Files files_;         // as the program sees them
  Files synced_files_;  // the names that survive a crash
};

}  // namespace brigade::io

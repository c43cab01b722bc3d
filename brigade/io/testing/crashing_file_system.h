#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// How much unsynced data is on the disk after a crash of the machine.
enum class Survivors {
  kNone,  ///< all of it is lost
  kAll,   ///< all of it survives
  kSome,  ///< a random part of it
};

struct Crash {
  /// Changes of folders: names created, renamed and removed. A rename survives completely or not at
  /// all; with kSome any change of a folder may survive while an earlier one does not.
  Survivors names = Survivors::kNone;
  /// Contents of files. With kSome a file is as at its last sync, empty, truncated, or a mix of
  /// 512-byte sectors: new ones, old ones, and zeros where there was nothing before.
  Survivors data = Survivors::kNone;
  /// Random numbers for kSome.
  std::uint64_t seed = 0;
};

/// A file system in memory that simulates a crash of the machine, for tests. POSIX guarantees that
/// a file's content is on the disk after `sync`, and the name of a file or folder after
/// `sync_directory` of its parent folder. Everything else may be lost, or survive while earlier
/// changes do not. It is stricter than `MemoryFileSystem::drop_unsynced`, which drops all unsynced
/// data and keeps folders; put a `FaultyFileSystem` on top to stop a program at an operation.
///
/// Thread-safety: all functions from any thread.
class CrashingFileSystem final : public FileSystem {
 public:
  CrashingFileSystem();
  ~CrashingFileSystem() override;

  /// The disk after the machine has restarted; everything on it is synced. This object does not
  /// change, so one state can crash in many ways.
  std::shared_ptr<CrashingFileSystem> crash(const Crash& crash) const;

  std::string read(const Path& path) const override;
  std::unique_ptr<ReadableFile> open(const Path& path) const override;
  std::unique_ptr<WritableFile> create(const Path& path, CreateMode mode) override;
  void rename(const Path& from, const Path& to) override;
  bool remove(const Path& path) override;
  std::optional<FileInfo> info(const Path& path) const override;
  std::vector<std::string> list(const Path& directory) const override;
  void create_directories(const Path& directory) override;
  void sync_directory(const Path& directory) override;

 private:
  class Disk;
  class Writer;
  std::shared_ptr<Disk> disk_;
};

}  // namespace brigade::io

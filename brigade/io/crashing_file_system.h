#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// How much of what was not synced is on the disk after a crash of the machine.
enum class Survivors {
  kNone,  ///< all of it is lost
  kAll,   ///< all of it is there
  kSome,  ///< any part of it, drawn at random
};

struct Crash {
  /// Changes of folders: names made, renamed and removed. A rename is there as a whole or not at
  /// all; with kSome any of a folder's changes may be there while an earlier one is not.
  Survivors names = Survivors::kNone;
  /// Contents of files. With kSome a file is as it was at its last sync, empty, cut short, or a
  /// patchwork of 512-byte sectors: new ones, old ones, and zeros where there was nothing before.
  Survivors data = Survivors::kNone;
  /// Draws for kSome.
  std::uint64_t seed = 0;
};

/// A file system in memory that tells what a crash of the machine would leave, for tests: POSIX
/// promises that a file's content is on the disk after `sync`, and a name, be it a file's or a
/// folder's, after `sync_directory` of the folder it is in. All else may be lost, or there before
/// what was done earlier. It is crueller than `MemoryFileSystem::drop_unsynced`, which loses
/// everything at once and keeps folders; put a `FaultyFileSystem` on top to stop a program at an
/// operation.
///
/// Thread-safety: all functions from any thread.
class CrashingFileSystem final : public FileSystem {
 public:
  CrashingFileSystem();
  ~CrashingFileSystem() override;

  /// The disk as it is found when the machine has started again; all that is on it is synced. This
  /// one stays as it is, so that one moment can be crashed in many ways.
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

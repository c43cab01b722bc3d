#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "brigade/base/handles.h"
#include "brigade/io/file_system.h"

namespace brigade::io {

/// A lock between processes, on this machine or on others that see the file. The operating system
/// holds the lock (flock), so it is released when the process ends, however it ends: a leftover
/// file locks nothing. The file names the holder: "process 1234 on host a".
///
/// If the file system does not support locks, every process gets the lock, with a warning.
///
/// Thread-safety: any thread; of two objects in one process only one gets the lock.
class LockFile {
 public:
  /// Creates the file if it is missing, in an existing folder, and locks it; returns nothing if
  /// another process holds it during all of `patience`, which gives a killed process time to exit.
  /// Throws kInvalidArgument if `path` is not a regular file, and as `FileSystem`.
  static std::unique_ptr<LockFile> acquire(
      const Path& path, std::chrono::milliseconds patience = std::chrono::seconds(3));

  /// Whether a process holds the lock at `path` now; false if there is no such file, or if its file
  /// system has no locks. Creates and changes nothing.
  static bool is_held(const Path& path);

  /// Who holds the lock at `path`, according to the file.
  static std::string holder(const Path& path);

  /// Releases the lock and removes the file.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  LockFile(Path path, base::FileDescriptor file);
  Path path_;
  base::FileDescriptor file_;
};

}  // namespace brigade::io

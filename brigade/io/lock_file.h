#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "brigade/io/file_system.h"

namespace brigade::io {

/// Keeps other processes, on this machine or on others that see the file, out of what only one may
/// use at a time. The system holds the lock (flock), so it goes with the process, however that
/// ends: a file that is left over locks nothing. In the file stands who has it: "process 1234 on
/// host a".
///
/// Where the file system has no locks, the first to ask gets it and so does every other one, with a
/// warning: those who use such a place must see to it themselves.
///
/// Thread-safety: none is needed; of two objects in one process one gets the lock.
class LockFile {
 public:
  /// Makes the file, if it is missing, in a folder that must exist, and locks it; nothing if
  /// another one has it for all of `patience`, which gives a process that was killed the time to be
  /// gone. Throws kInvalidArgument if something else than a regular file is at `path`, and as
  /// `FileSystem`.
  static std::unique_ptr<LockFile> acquire(
      const Path& path, std::chrono::milliseconds patience = std::chrono::seconds(3));

  /// Who has the lock at `path`, as far as the file says it.
  static std::string holder(const Path& path);

  /// Unlocks, and removes the file.
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  LockFile(Path path, int file);
  Path path_;
  int file_;
};

}  // namespace brigade::io

#pragma once

#include <chrono>
#include <memory>

#include "brigade/io/file_system.h"
#include "brigade/io/lock_file.h"

namespace brigade::ps {

struct ServerFolderOptions {
  /// The folder of all servers of the job, created if it is missing. Empty: the server gets a
  /// temporary folder, which only this user may access and which is removed at the end.
  io::Path parent = {};
  int server = 0;  ///< the server's index
  /// Whether it is for the server's second process: "ps-<index>-replica".
  bool is_replica = false;
  /// How long to wait for another process to give up the folder: a killed one needs time to exit.
  std::chrono::milliseconds patience = std::chrono::seconds(3);
};

/// The name of a server's folder in that of the job.
io::Path server_folder_name(const ServerFolderOptions& options);

/// The folder in which one parameter server keeps its log and snapshots: "ps-<index>" of the job's.
/// No other server uses it as long as this object lives.
///
/// Thread-safety: `path` from any thread.
class ServerFolder {
 public:
  /// Throws kFailedPrecondition, naming the holder, if another server uses the folder; and as the
  /// file system.
  explicit ServerFolder(const ServerFolderOptions& options);
  ~ServerFolder();
  ServerFolder(const ServerFolder&) = delete;
  ServerFolder& operator=(const ServerFolder&) = delete;

  const io::Path& path() const { return path_; }
  bool is_temporary() const { return lock_ == nullptr; }

 private:
  io::Path path_;
  std::unique_ptr<io::LockFile> lock_;  // null: nobody else knows the folder
};

}  // namespace brigade::ps

#include "brigade/ps/server/server_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::ps {
namespace {

io::Path make_temporary_folder() {
  std::error_code ignored;
  std::string path = (std::filesystem::temp_directory_path(ignored) / "brigade-ps-XXXXXX").string();
  if (!::mkdtemp(path.data())) {  // made with mode 0700
    throw Error(ErrorCode::kPermissionDenied, "No temporary folder can be made at ", path, ": ",
                std::strerror(errno), ". Set TMPDIR, or give the server a folder.");
  }
  return path;
}

}  // namespace

io::Path server_folder_name(const ServerFolderOptions& options) {
  return base::str_cat("ps-", options.server, options.is_replica ? "-replica" : "");
}

ServerFolder::ServerFolder(const ServerFolderOptions& options) {
  if (options.parent.empty()) {
    path_ = make_temporary_folder();
    return;
  }
  path_ = options.parent / server_folder_name(options);
  io::posix_file_system()->create_directories(path_);
  const io::Path lock = path_ / "lock";
  lock_ = io::LockFile::acquire(lock, options.patience);
  if (!lock_) {
    throw Error(ErrorCode::kFailedPrecondition, "Another parameter server uses ", path_, ": ",
                io::LockFile::holder(lock), ". End it first, or give this one another folder.");
  }
}

ServerFolder::~ServerFolder() {
  if (!is_temporary()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace brigade::ps

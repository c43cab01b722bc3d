#include "brigade/comm/shared_memory/private_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

PrivateFolder::PrivateFolder() {
  std::error_code ignored;
  path_ = (std::filesystem::temp_directory_path(ignored) / "brigade-tls-XXXXXX").string();
  if (!mkdtemp(path_.data())) {  // made with mode 0700
    throw Error(
        ErrorCode::kPermissionDenied,
        base::str_cat("No private folder can be made at ", path_, ": ", std::strerror(errno), "."));
  }
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string PrivateFolder::write(const std::string& name, const std::string& content) const {
  const std::string file = path_ + "/" + name;
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool is_written = descriptor >= 0 && ::write(descriptor, content.data(), content.size()) ==
                                                 static_cast<ssize_t>(content.size());
  const int failure = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (is_written) return file;
  throw Error(ErrorCode::kPermissionDenied,
              base::str_cat(file, " cannot be written: ", std::strerror(failure), "."));
}

}  // namespace brigade::comm

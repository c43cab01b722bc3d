#include "brigade/launch/key_descriptor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::launch {

std::string key_descriptor_path() {
  return base::str_cat(cluster::kDescriptorFolder, kKeyDescriptor);
}

FileDescriptor make_key_descriptor(const cluster::ClusterKey& key) {
  FileDescriptor file(::memfd_create("brigade-cluster-key", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string text = key.to_hex() + "\n";
  const bool is_written =
      file.is_open() && ::fchmod(file.number(), S_IRUSR) == 0 &&
      ::write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fcntl(file.number(), F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
  if (is_written) return with_high_number(std::move(file));
  throw Error(
      ErrorCode::kResourceExhausted,
      base::str_cat("The cluster key cannot be passed to a process: ", std::strerror(errno), "."));
}

}  // namespace brigade::launch

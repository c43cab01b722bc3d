#include "brigade/launch/file_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::launch {

void FileDescriptor::reset() noexcept {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kResourceExhausted,
                base::str_cat("No pipe could be made: ", std::strerror(errno), "."));
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

void set_non_blocking(const FileDescriptor& descriptor) {
  ::fcntl(descriptor.number(), F_SETFL, ::fcntl(descriptor.number(), F_GETFL) | O_NONBLOCK);
}

}  // namespace brigade::launch

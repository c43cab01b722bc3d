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

namespace {

constexpr int kLowest = 10;

[[noreturn]] void refuse() {
  throw Error(ErrorCode::kResourceExhausted,
              base::str_cat("No descriptor could be made: ", std::strerror(errno), "."));
}

}  // namespace

FileDescriptor with_high_number(FileDescriptor low) {
  if (low.number() >= kLowest) return low;
  FileDescriptor high(::fcntl(low.number(), F_DUPFD_CLOEXEC, kLowest));
  if (!high.is_open()) refuse();
  return high;
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) refuse();
  FileDescriptor read(ends[0]), write(ends[1]);
  return {with_high_number(std::move(read)), with_high_number(std::move(write))};
}

void set_non_blocking(const FileDescriptor& descriptor) {
  ::fcntl(descriptor.number(), F_SETFL, ::fcntl(descriptor.number(), F_GETFL) | O_NONBLOCK);
}

}  // namespace brigade::launch

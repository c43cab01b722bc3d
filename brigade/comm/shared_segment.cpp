#include "brigade/comm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::comm {

SharedSegment SharedSegment::make(std::size_t bytes) {
  SharedSegment segment;
  segment.descriptor_ = memfd_create("brigade", MFD_CLOEXEC);
  // Pages are taken now, so that a lack of memory is an error here and no signal later.
  const int failure = segment.descriptor_ < 0
                          ? errno
                          : posix_fallocate(segment.descriptor_, 0, static_cast<off_t>(bytes));
  if (failure != 0) {
    throw Error(ErrorCode::kResourceExhausted,
                base::str_cat("There is no shared memory of ", base::human_bytes(bytes), ": ",
                              std::strerror(failure), "."));
  }
  segment.map(segment.descriptor_, bytes);
  return segment;
}

SharedSegment SharedSegment::open(std::int64_t pid, int fd, std::size_t bytes) {
  const std::string path = base::str_cat("/proc/", pid, "/fd/", fd);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status = {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0 ||
      static_cast<std::size_t>(status.st_size) != bytes) {
    const int failure = errno;
    if (descriptor >= 0) ::close(descriptor);
    throw Error(ErrorCode::kUnavailable,
                base::str_cat("The shared memory of process ", pid, " cannot be opened (", path,
                              ": ", descriptor < 0 ? std::strerror(failure) : "another size",
                              "); where processes may not see each other, use the transport "
                              "'gloo'."));
  }
  SharedSegment segment;
  try {
    segment.map(descriptor, bytes);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
  return segment;
}

void SharedSegment::map(int descriptor, std::size_t bytes) {
  void* const address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (address == MAP_FAILED) {
    throw Error(ErrorCode::kResourceExhausted,
                base::str_cat("Shared memory of ", base::human_bytes(bytes),
                              " cannot be mapped: ", std::strerror(errno), "."));
  }
  data_ = static_cast<std::byte*>(address);
  size_ = bytes;
}

SharedSegment::~SharedSegment() {
  if (data_) munmap(data_, size_);
  close_descriptor();
}

void SharedSegment::close_descriptor() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void SharedSegment::swap(SharedSegment& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
}

}  // namespace brigade::comm

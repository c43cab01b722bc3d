#include "brigade/launch/descriptors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::launch {
namespace {

constexpr int kLowest = 10;

[[noreturn]] void refuse() {
  throw Error(ErrorCode::kResourceExhausted, "No descriptor could be made: ", std::strerror(errno),
              ".");
}

}  // namespace

base::FileDescriptor with_high_number(base::FileDescriptor low) {
  if (low.number() >= kLowest) return low;
  base::FileDescriptor high(::fcntl(low.number(), F_DUPFD_CLOEXEC, kLowest));
  if (!high.is_open()) refuse();
  return high;
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) refuse();
  base::FileDescriptor read(ends[0]), write(ends[1]);
  return {with_high_number(std::move(read)), with_high_number(std::move(write))};
}

SocketPair make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) refuse();
  base::FileDescriptor own(ends[0]), other(ends[1]);
  return {with_high_number(std::move(own)), with_high_number(std::move(other))};
}

void set_non_blocking(const base::FileDescriptor& descriptor) {
  ::fcntl(descriptor.number(), F_SETFL, ::fcntl(descriptor.number(), F_GETFL) | O_NONBLOCK);
}

std::string key_descriptor_path() {
  return base::str_cat(cluster::kDescriptorFolder, kKeyDescriptor);
}

base::FileDescriptor make_key_descriptor(const cluster::ClusterKey& key) {
  base::FileDescriptor file(::memfd_create("brigade-cluster-key", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string text = key.to_hex() + "\n";
  const bool is_written =
      file.is_open() && ::fchmod(file.number(), S_IRUSR) == 0 &&
      ::write(file.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fcntl(file.number(), F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
  if (is_written) return with_high_number(std::move(file));
  throw Error(ErrorCode::kResourceExhausted,
              "The cluster key cannot be passed to a process: ", std::strerror(errno), ".");
}

}  // namespace brigade::launch

#include "brigade/rpc/socket.h"

#include <unistd.h>

namespace brigade::rpc {

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace brigade::rpc

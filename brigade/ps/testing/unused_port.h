#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"

namespace brigade::ps::testing {

/// A TCP port on 127.0.0.1 that was free a moment ago.
inline int unused_port() {
  const base::FileDescriptor descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* bound = reinterpret_cast<sockaddr*>(&address);
  check_state(::bind(descriptor.number(), bound, size) == 0 &&
                  ::getsockname(descriptor.number(), bound, &size) == 0,
              "The test found no free port.");
  return ntohs(address.sin_port);
}

}  // namespace brigade::ps::testing

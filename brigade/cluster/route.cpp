#include "brigade/cluster/route.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "brigade/cluster/address.h"
#include "brigade/cluster/cluster_key.h"

namespace brigade::cluster {

namespace {

/// To an IP address; no name is asked for.
std::optional<std::string> source_address_to(const std::string& ip_address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(ip_address.c_str(), "9", &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return std::nullopt;
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  const bool is_known = ::connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                        getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  ::close(socket);
  char text[NI_MAXHOST] = {};
  if (!is_known || getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr,
                               0, NI_NUMERICHOST) != 0)
    return std::nullopt;
  return std::string(text);
}

}  // namespace

std::optional<std::string> source_address(const std::string& host,
                                          std::chrono::milliseconds timeout,
                                          const HostLookup& lookup) {
  const auto found = look_up({host}, timeout, lookup);
  const auto answer = found.find(host);
  if (answer == found.end()) return std::nullopt;
  for (const std::string& address : answer->second.addresses) {
    const auto source = source_address_to(address);
    if (source && !is_loopback(*source)) return source;
  }
  return std::nullopt;
}

}  // namespace brigade::cluster

#include "brigade/rpc/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"

namespace brigade::rpc {
namespace {

bool is_ip_address(const std::string& host) {
  in6_addr scratch{};
  return inet_pton(AF_INET, host.c_str(), &scratch) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &scratch) == 1;
}

cluster::Address without_localhost(cluster::Address address) {
  if (address.host == "localhost") address.host = "127.0.0.1";
  return address;
}

[[noreturn]] void refuse(const std::string& text, int error) {
  const bool is_taken = error == EADDRINUSE;
  throw Error(ErrorCode::kUnavailable,
              base::str_cat("Cannot listen on ", text, ": ", std::strerror(error),
                            is_taken ? ". Another program, or an earlier run that has not ended, "
                                       "has the port (`ss -ltnp` shows which)."
                                     : "."));
}

class Socket {
 public:
  explicit Socket(int family) : descriptor_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

void require_key_beyond_loopback(const cluster::Address& address, KeyState key,
                                 std::string_view what) {
  if (key == KeyState::kPresent || cluster::is_loopback(address.host)) return;
  throw Error(ErrorCode::kPermissionDenied,
              base::str_cat("Without a cluster key this process does not ", what, " ", address,
                            ", which is beyond this machine; make a key with `brigade launch "
                            "--new-key` and give it to every process in BRIGADE_CLUSTER_KEY or in "
                            "the file that BRIGADE_CLUSTER_KEY_FILE names."));
}

std::string listen_text(const cluster::Address& address) {
  const cluster::Address plain = without_localhost(address);
  if (is_ip_address(plain.host)) return cluster::to_string(plain);
  return cluster::to_string(cluster::Address{"::", plain.port});
}

std::string connect_text(const cluster::Address& address) {
  return cluster::to_string(without_localhost(address));
}

std::string connect_to_self_text(const cluster::Address& address) {
  const cluster::Address plain = without_localhost(address);
  const bool is_any = plain.host == "0.0.0.0" || plain.host == "::";
  if (is_ip_address(plain.host) && !is_any) return cluster::to_string(plain);
  return base::str_cat("localhost:", plain.port);
}

void probe_listen(const std::string& text) {
  const auto address = cluster::parse_address(text, cluster::PortZero::kAllowed);
  if (address.port == 0) return;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = base::str_cat(address.port);
  if (getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found) != 0) return;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const Socket socket(found->ai_family);
  if (socket.descriptor() < 0) return;  // a machine without IPv6: the server finds another way
  const int on = 1;
  setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.descriptor(), found->ai_addr, found->ai_addrlen) != 0) refuse(text, errno);
  if (::listen(socket.descriptor(), 1) != 0) refuse(text, errno);
}

}  // namespace brigade::rpc

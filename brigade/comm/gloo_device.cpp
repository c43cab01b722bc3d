#include "brigade/comm/gloo_device.h"

#include <arpa/inet.h>
#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"

// libtorch exports this; Debian's headers of Gloo do not declare it. (c10d calls it where the
// environment has GLOO_DEVICE_TRANSPORT=TCP_TLS and three paths; calling it spares changing the
// environment of a program that has threads.)
namespace gloo::transport::tcp::tls {
std::shared_ptr<gloo::transport::Device> CreateDevice(const gloo::transport::tcp::attr& attributes,
                                                      std::string private_key,
                                                      std::string certificate,
                                                      std::string authority_file,
                                                      std::string authority_folder);
}  // namespace gloo::transport::tcp::tls

namespace brigade::comm {

namespace {

using gloo::transport::tcp::attr;

const cluster::Member* first_elsewhere(const cluster::Membership& membership) {
  const auto& members = membership.members();
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& member) {
    return member.host != membership.self().host;
  });
  return found == members.end() ? nullptr : &*found;
}

/// The address that the system would send from to reach `host`; nothing is sent.
std::optional<std::string> source_address(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return std::nullopt;
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  const bool known = ::connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  ::close(socket);
  char text[NI_MAXHOST] = {};
  if (!known || getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                            NI_NUMERICHOST) != 0)
    return std::nullopt;
  return std::string(text);
}

attr where_to_listen(const cluster::Membership& membership) {
  attr attributes;
  const cluster::Member* const elsewhere = first_elsewhere(membership);
  if (!elsewhere) {
    attributes.iface = "lo";
    return attributes;
  }
  if (const auto interface = base::environment("GLOO_SOCKET_IFNAME")) {
    attributes.iface = *interface;
    return attributes;
  }
  // An address that is nobody's (RFC 5737) leads to the default route.
  auto address = source_address(elsewhere->host);
  if (!address) address = source_address("192.0.2.1");
  if (!address) {
    throw Error(ErrorCode::kUnavailable,
                base::str_cat("No network leads from here to ", *elsewhere,
                              "; set GLOO_SOCKET_IFNAME to the interface that does."));
  }
  attributes.hostname = *address;
  return attributes;
}

sigset_t pipe_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

PipeSignalBlock::PipeSignalBlock() {
  const sigset_t set = pipe_signal();
  ::pthread_sigmask(SIG_BLOCK, &set, &former_);
}

PipeSignalBlock::~PipeSignalBlock() {
  // One that came in this thread meanwhile is Gloo's, too.
  const sigset_t set = pipe_signal();
  const timespec at_once{};
  if (sigismember(&former_, SIGPIPE) == 0) ::sigtimedwait(&set, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

GlooDevice make_gloo_device(const cluster::Membership& membership,
                            const std::optional<cluster::ClusterKey>& key) {
  const cluster::Member* const elsewhere = first_elsewhere(membership);
  if (elsewhere && !key) {
    throw Error(ErrorCode::kPermissionDenied,
                base::str_cat("Processes on several hosts (this one on ", membership.self().host,
                              ", ", *elsewhere,
                              ") need a cluster key: make one with `brigade launch --new-key`, and "
                              "give it to all in BRIGADE_CLUSTER_KEY_FILE."));
  }
  const attr attributes = where_to_listen(membership);
  auto pipe_signal = std::make_unique<PipeSignalBlock>();  // the device has a thread, too
  if (!key) {
    return {.pipe_signal = std::move(pipe_signal),
            .device = gloo::transport::tcp::CreateDevice(attributes)};
  }
  const cluster::TlsIdentity identity = cluster::make_tls_identity(*key);
  auto folder = std::make_unique<PrivateFolder>();
  const std::string private_key = folder->write("key.pem", identity.private_key);
  const std::string certificate = folder->write("certificate.pem", identity.certificate);
  const std::string authority = folder->write("authority.pem", identity.authority);
  return {.pipe_signal = std::move(pipe_signal),
          .device = gloo::transport::tcp::tls::CreateDevice(attributes, private_key, certificate,
                                                            authority, ""),
          .identity = std::move(folder)};
}

}  // namespace brigade::comm

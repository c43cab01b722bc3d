#include "brigade/rpc/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::rpc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostPort = 65'535;

std::string address_of(const LocalUrl& url) {
  return base::str_cat("http://127.0.0.1:", url.port, base::printable(url.path));
}

[[noreturn]] void fail_to_connect(const LocalUrl& url, int error) {
  throw Error(ErrorCode::kUnavailable, "Nothing answers at ", address_of(url), ": ",
              std::strerror(error), "; is the process still running, and is this its status port?");
}

[[noreturn]] void fail_to_parse(const LocalUrl& url, std::string_view why) {
  throw Error(ErrorCode::kDataLoss, "The reply of ", address_of(url), " ", why, ".");
}

void wait(const LocalUrl& url, int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{.fd = socket, .events = events, .revents = 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready > 0) return;
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) fail_to_connect(url, errno);
    throw Error(ErrorCode::kDeadlineExceeded, address_of(url), " did not answer in time.");
  }
}

base::FileDescriptor connect_to(const LocalUrl& url, Clock::time_point deadline) {
  base::FileDescriptor connection(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!connection.is_open()) fail_to_connect(url, errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(url.port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(connection.number(), generic, sizeof address) == 0) return connection;
  if (errno != EINPROGRESS) fail_to_connect(url, errno);
  wait(url, connection.number(), POLLOUT, deadline);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(connection.number(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) fail_to_connect(url, error);
  return connection;
}

void send_all(const LocalUrl& url, int socket, std::string_view text, Clock::time_point deadline) {
  while (!text.empty()) {
    const ssize_t count = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) fail_to_connect(url, errno);
    if (count < 0) wait(url, socket, POLLOUT, deadline);
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
}

/// Everything until the server closes the connection.
std::string receive_all(const LocalUrl& url, int socket, Clock::time_point deadline) {
  std::string reply;
  for (;;) {
    wait(url, socket, POLLIN, deadline);
    char buffer[16 << 10];
    const ssize_t count = ::recv(socket, buffer, sizeof buffer, 0);
    if (count == 0) return reply;
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) fail_to_connect(url, errno);
    reply.append(buffer, static_cast<std::size_t>(count));
    if (reply.size() > kMostReplyBytes) fail_to_parse(url, "is too long");
  }
}

}  // namespace

LocalUrl parse_local_url(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view authority = rest.substr(0, slash);
  const std::size_t colon = std::min(authority.find(':'), authority.size());
  const std::string_view host = authority.substr(0, colon);
  const auto port = base::parse_index(authority.substr(std::min(colon + 1, authority.size())));
  if ((host != "127.0.0.1" && host != "localhost") || !port || *port < 1 || *port > kMostPort) {
    throw Error(ErrorCode::kInvalidArgument, base::quoted(text),
                " is not the address of a status page of this machine; give one such as "
                "http://127.0.0.1:9400");
  }
  const bool has_path = slash < rest.size();
  return {.port = *port, .path = has_path ? std::string(rest.substr(slash)) : "/"};
}

HttpReply http_get(const LocalUrl& url, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const base::FileDescriptor connection = connect_to(url, deadline);
  send_all(url, connection.number(),
           base::str_cat("GET ", url.path, " HTTP/1.1\r\nHost: 127.0.0.1:", url.port,
                         "\r\nConnection: close\r\n\r\n"),
           deadline);
  const std::string reply = receive_all(url, connection.number(), deadline);
  const std::size_t head = reply.find("\r\n\r\n");
  constexpr std::size_t kStatusAt = sizeof "HTTP/1.1 " - 1;
  const auto status =
      base::parse_index(std::string_view(reply).substr(std::min(kStatusAt, reply.size()), 3));
  if (!reply.starts_with("HTTP/1.") || head == std::string::npos || !status)
    fail_to_parse(url, "is not HTTP");
  return {.status = *status, .body = reply.substr(head + 4)};
}

}  // namespace brigade::rpc

#include "brigade/rpc/http_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/rpc/acceptor.h"

namespace brigade::rpc {
namespace {

constexpr int kMostAcceptedACall = 256;
constexpr std::size_t kLongestHead = 8 * 1024;

std::string response(const HttpAnswer& answer) {
  return base::str_cat("HTTP/1.1 ", answer.status, "\r\nContent-Type: ", answer.content_type,
                       "\r\nContent-Length: ", answer.body.size(), "\r\nConnection: close\r\n\r\n",
                       answer.body);
}

std::string refusal(const char* status, const std::string& reason) {
  return response({.status = status, .body = reason + "\n"});
}

bool call_would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

std::string http_response(const std::string& head, const HttpPages& pages) {
  const std::string line = head.substr(0, head.find_first_of("\r\n"));
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string::npos ? first : line.find(' ', first + 1);
  if (second == std::string::npos || line.compare(second + 1, 5, "HTTP/") != 0)
    return refusal("400 Bad Request", "this is not an HTTP request");
  if (line.substr(0, first) != "GET") return refusal("405 Method Not Allowed", "only GET");
  return response(pages(line.substr(first + 1, second - first - 1)));
}

HttpServer::HttpServer(int port) {
  Listening listening = listen_on(base::str_cat("127.0.0.1:", port));
  listener_ = std::move(listening.socket);
  port_ = listening.port;
}

void HttpServer::add_to(std::vector<pollfd>& waiting) const {
  waiting.push_back({.fd = listener_.number(), .events = POLLIN, .revents = 0});
  for (const Connection& each : connections_) {
    waiting.push_back({.fd = each.socket.number(),
                       .events = static_cast<short>(each.answer.empty() ? POLLIN : POLLOUT),
                       .revents = 0});
  }
}

HttpServer::Clock::time_point HttpServer::next_deadline() const {
  auto earliest = Clock::time_point::max();
  for (const Connection& each : connections_) earliest = std::min(earliest, each.deadline);
  return earliest;
}

void HttpServer::serve(const HttpPages& pages) {
  accept_some();
  const auto now = Clock::now();
  connections_.remove_if(
      [&](Connection& each) { return now >= each.deadline || advance(each, pages); });
}

void HttpServer::accept_some() {
  for (int i = 0; i < kMostAcceptedACall; ++i) {
    base::FileDescriptor socket(
        ::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return;
    if (connections_.size() >= kMostConnections) cut_off_oldest();
    connections_.push_back({.socket = std::move(socket), .deadline = Clock::now() + kPatience});
  }
}

/// Prefers connections that have not sent a request yet.
void HttpServer::cut_off_oldest() {
  const auto silent = std::ranges::find_if(
      connections_, [](const Connection& each) { return each.answer.empty(); });
  connections_.erase(silent == connections_.end() ? connections_.begin() : silent);
}

bool HttpServer::advance(Connection& connection, const HttpPages& pages) {
  while (connection.answer.empty()) {
    char piece[1024];
    const ssize_t count = ::recv(connection.socket.number(), piece, sizeof(piece), 0);
    if (count <= 0) return count == 0 || !call_would_block();
    connection.request.append(piece, static_cast<std::size_t>(count));
    const std::string& head = connection.request;
    const bool is_whole =
        head.find("\r\n\r\n") != std::string::npos || head.find("\n\n") != std::string::npos;
    if (is_whole) connection.answer = http_response(head, pages);
    if (!is_whole && head.size() > kLongestHead)
      connection.answer = refusal("431 Request Header Fields Too Large", "too long");
  }
  while (!connection.answer.empty()) {
    const ssize_t count = ::send(connection.socket.number(), connection.answer.data(),
                                 connection.answer.size(), MSG_NOSIGNAL);
    if (count < 0) return !call_would_block();
    connection.answer.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace brigade::rpc

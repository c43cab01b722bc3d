#include "brigade/launch/status_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/rpc/acceptor.h"

namespace brigade::launch {
namespace {

template <class T>
std::string metric(const char* name, const char* type, const char* help, const T& value) {
  return base::str_cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n", name, " ",
                       value, "\n");
}

constexpr std::size_t kMostConnections = 64;
constexpr int kMostAcceptedACall = 256;
constexpr std::size_t kLongestHead = 8 * 1024;
constexpr std::chrono::seconds kStatusPatience{5};

std::string answer(const char* state, const char* type, const std::string& body) {
  return base::str_cat("HTTP/1.1 ", state, "\r\nContent-Type: ", type,
                       "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n\r\n", body);
}

std::string plain(const char* state, const std::string& body) {
  return answer(state, "text/plain; charset=utf-8", body + "\n");
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

std::string to_metrics(const JobStatus& status) {
  std::string text =
      metric("brigade_job_generation", "gauge", "Which start of the job runs; the first is 0.",
             status.generation) +
      metric("brigade_job_processes", "gauge", "Processes of this generation on this host.",
             status.up.size()) +
      metric("brigade_job_restarts_total", "counter", "Restarts after failures.", status.restarts) +
      metric("brigade_job_membership_changes_total", "counter",
             "Restarts with another number of processes, or that a process asked for.",
             status.membership_changes) +
      metric("brigade_job_uptime_seconds", "gauge", "Since the launcher started.", status.seconds);
  text +=
      "# HELP brigade_rank_up Whether the rank's process runs.\n"
      "# TYPE brigade_rank_up gauge\n";
  for (std::size_t i = 0; i < status.up.size(); ++i) {
    text += base::str_cat("brigade_rank_up{rank=\"", status.first_rank + static_cast<int>(i),
                          "\"} ", status.up[i] ? 1 : 0, "\n");
  }
  return text;
}

std::string http_answer(const std::string& head, const std::function<JobStatus()>& status) {
  const std::string line = head.substr(0, head.find_first_of("\r\n"));
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string::npos ? first : line.find(' ', first + 1);
  if (second == std::string::npos || line.compare(second + 1, 5, "HTTP/") != 0)
    return plain("400 Bad Request", "this is not an HTTP request");
  if (line.substr(0, first) != "GET") return plain("405 Method Not Allowed", "only GET");
  const std::string path = line.substr(first + 1, second - first - 1);
  if (path == "/healthz") {
    return status().is_stopping ? plain("503 Service Unavailable", "stopping")
                                : plain("200 OK", "ok");
  }
  if (path == "/metrics")
    return answer("200 OK", "text/plain; version=0.0.4; charset=utf-8", to_metrics(status()));
  return plain("404 Not Found", "there are /healthz and /metrics");
}

StatusServer::StatusServer(int port) {
  try {
    rpc::Listening listening = rpc::listen_on(base::str_cat("127.0.0.1:", port));
    listener_ = std::move(listening.socket);
    port_ = listening.port;
  } catch (const Error& error) {
    throw Error(error.code(),
                base::str_cat("The status port: ", error.what(), " 0 takes a free one."));
  }
}

void StatusServer::add_to(std::vector<pollfd>& waiting) const {
  waiting.push_back({.fd = listener_.number(), .events = POLLIN, .revents = 0});
  for (const Connection& each : connections_) {
    waiting.push_back({.fd = each.socket.number(),
                       .events = static_cast<short>(each.answer.empty() ? POLLIN : POLLOUT),
                       .revents = 0});
  }
}

StatusServer::Clock::time_point StatusServer::next_deadline() const {
  auto earliest = Clock::time_point::max();
  for (const Connection& each : connections_) earliest = std::min(earliest, each.deadline);
  return earliest;
}

void StatusServer::serve(const std::function<JobStatus()>& status) {
  accept_some();
  const auto now = Clock::now();
  connections_.remove_if(
      [&](Connection& each) { return now >= each.deadline || advance(each, status); });
}

void StatusServer::accept_some() {
  for (int i = 0; i < kMostAcceptedACall; ++i) {
    base::FileDescriptor socket(
        ::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return;
    if (connections_.size() >= kMostConnections) cut_off_oldest();
    connections_.push_back(
        {.socket = std::move(socket), .deadline = Clock::now() + kStatusPatience});
  }
}

/// Prefers connections that have not sent a request yet.
void StatusServer::cut_off_oldest() {
  const auto silent = std::ranges::find_if(
      connections_, [](const Connection& each) { return each.answer.empty(); });
  connections_.erase(silent == connections_.end() ? connections_.begin() : silent);
}

bool StatusServer::advance(Connection& connection, const std::function<JobStatus()>& status) {
  while (connection.answer.empty()) {
    char piece[1024];
    const ssize_t count = ::recv(connection.socket.number(), piece, sizeof(piece), 0);
    if (count <= 0) return count == 0 || !would_block();
    connection.request.append(piece, static_cast<std::size_t>(count));
    const std::string& head = connection.request;
    const bool is_whole =
        head.find("\r\n\r\n") != std::string::npos || head.find("\n\n") != std::string::npos;
    if (is_whole) connection.answer = http_answer(head, status);
    if (!is_whole && head.size() > kLongestHead)
      connection.answer = plain("431 Request Header Fields Too Large", "too long");
  }
  while (!connection.answer.empty()) {
    const ssize_t count = ::send(connection.socket.number(), connection.answer.data(),
                                 connection.answer.size(), MSG_NOSIGNAL);
    if (count < 0) return !would_block();
    connection.answer.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace brigade::launch

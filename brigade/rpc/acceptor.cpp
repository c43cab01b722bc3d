#include "brigade/rpc/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"

namespace brigade::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The connections accepted per round, and the pause after a round in which some were rejected: at
// most 6,400 connections a second are accepted.
constexpr int kAcceptsARound = 64;
constexpr milliseconds kPause{10};
// The pause when no descriptors are left, until others are closed.
constexpr milliseconds kShortage{100};
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

[[noreturn]] void refuse(const std::string& text, int error) {
  const bool is_taken = error == EADDRINUSE;
  throw Error(ErrorCode::kUnavailable, "Cannot listen on ", text, ": ", std::strerror(error),
              is_taken ? ". Another program, or an earlier run that has not ended, has the port "
                         "(`ss -ltnp` shows which)."
                       : ".");
}

using Endpoint = base::Handle<addrinfo, freeaddrinfo>;

Endpoint endpoint_of(const cluster::Address& address, const std::string& text) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = base::str_cat(address.port);
  const int failure = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (failure != 0) {
    throw Error(ErrorCode::kUnavailable, "Cannot listen on ", text, ": ", gai_strerror(failure),
                ".");
  }
  return Endpoint(found);
}

struct Attempt {
  base::FileDescriptor socket = {};
  int error = 0;
};

Attempt try_to_listen(const cluster::Address& address, const std::string& text) {
  const Endpoint endpoint = endpoint_of(address, text);
  base::FileDescriptor socket(
      ::socket(endpoint->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return {.error = errno};
  const int on = 1, off = 0;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (endpoint->ai_family == AF_INET6)
    ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(socket.number(), endpoint->ai_addr, endpoint->ai_addrlen) != 0 ||
      ::listen(socket.number(), SOMAXCONN) != 0) {
    return {.error = errno};
  }
  return {.socket = std::move(socket)};
}

int port_of(const base::FileDescriptor& socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

std::string text_of(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const bool is_known =
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(),
                  port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) == 0;
  return is_known ? base::str_cat(host.data(), ":", port.data()) : "an unknown address";
}

/// A token bucket for the connections that are passed on.
class Allowance {
 public:
  Allowance(double burst, double per_second)
      : burst_(burst), per_second_(per_second), left_(burst) {}

  void refill(Clock::time_point now) {
    const double seconds = std::chrono::duration<double>(now - refilled_).count();
    left_ = std::min(burst_, left_ + seconds * per_second_);
    refilled_ = now;
  }
  bool take() {
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double burst_;
  double per_second_;
  double left_;
  Clock::time_point refilled_ = Clock::now();
};

struct Connection {
  base::FileDescriptor socket;
  Clock::time_point since;
  std::string peer;
  bool is_ready = false;  // has begun as a member's does
};

enum class Beginning { kNone, kMembers, kOthers };

bool begins_tls(std::string_view begin) {
  return std::string_view("\x16\x03").starts_with(begin.substr(0, 2));
}

// "Fatal: handshake failure", as TLS says it in the clear: for a member with a key, where there is
// none.
constexpr std::string_view kNoTls("\x15\x03\x03\x00\x02\x02\x28", 7);

/// Reads what has arrived before it sends the alert: closing a socket with unread data resets the
/// connection and drops the alert.
void send_no_tls_alert(const base::FileDescriptor& socket) {
  std::array<char, 4096> rest{};
  (void)!::recv(socket.number(), rest.data(), rest.size(), 0);
  (void)!::send(socket.number(), kNoTls.data(), kNoTls.size(), MSG_NOSIGNAL);
}

}  // namespace

Listening listen_on(const std::string& text) {
  auto address = cluster::parse_address(text, cluster::PortZero::kAllowed);
  Attempt attempt = try_to_listen(address, text);
  const bool has_no_ipv6 = attempt.error == EAFNOSUPPORT || attempt.error == EADDRNOTAVAIL;
  if (has_no_ipv6 && address.host == "::") {
    address.host = "0.0.0.0";
    attempt = try_to_listen(address, text);
  }
  if (attempt.error != 0) refuse(text, attempt.error);
  const int port = port_of(attempt.socket);
  return {std::move(attempt.socket), port};
}

void ConnectionStormDetector::record(Clock::time_point now, const std::string& peer) {
  if (now - second_begun_ >= std::chrono::seconds(1)) {
    second_begun_ = now;
    in_second_ = 0;
  }
  ++in_second_;
  if (storm_begun_) ++in_storm_;
  last_peer_ = peer;
  if (in_second_ < kStorm) return;
  storm_seen_ = now;
  if (storm_begun_) return;
  storm_begun_ = now;
  in_storm_ = in_second_;
}

std::optional<std::string> ConnectionStormDetector::report(Clock::time_point now) {
  if (!storm_begun_) return std::nullopt;
  if (!is_reported_) {
    is_reported_ = true;
    return base::str_cat(
        "A storm of connections at ", address_, ": more than ", kStorm,
        " in a second came from programs that are not members of this job (the last from ",
        last_peer_,
        "). They are closed. Members that have joined are not affected; a start may be slow.");
  }
  if (now - storm_seen_ < kCalm) return std::nullopt;
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(storm_seen_ - *storm_begun_);
  std::string text =
      base::str_cat("The storm of connections at ", address_, " is over: ", in_storm_,
                    " were closed in ", took.count() + 1, " s.");
  storm_begun_.reset();
  is_reported_ = false;
  return text;
}

class Acceptor::Loop {
 public:
  Loop(const AcceptorOptions& options, base::FileDescriptor listening, OnConnection on_connection)
      : options_(options),
        listening_(std::move(listening)),
        on_connection_(std::move(on_connection)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        allowance_(static_cast<double>(options.burst), options.per_second),
        storm_(options.address),
        thread_([this] { run(); }) {}

  ~Loop() {
    const std::uint64_t one = 1;
    (void)!::write(wake_.number(), &one, sizeof one);
    thread_.join();
  }

 private:
  void run() {
    for (;;) {
      if (wait()) return;
      now_ = Clock::now();
      num_rejected_ = 0;
      accept_some();
      look_at_waiting();
      forward_ready();
      if (const auto text = storm_.report(now_)) base::log_warning(*text);
      if (num_rejected_ > 0 && is_woken(kPause)) return;
    }
  }

  /// Whether this is the end.
  bool wait() {
    std::vector<pollfd> polled = {{wake_.number(), POLLIN, 0}, {listening_.number(), POLLIN, 0}};
    for (const Connection& each : waiting_)
      if (!each.is_ready) polled.push_back({each.socket.number(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), static_cast<int>(next_look().count()));
    return polled[0].revents != 0;
  }

  /// The time until waiting connections are checked again.
  milliseconds next_look() const {
    const bool is_anyone_ready = std::ranges::any_of(waiting_, &Connection::is_ready);
    if (is_anyone_ready) return milliseconds(50);
    return milliseconds(1000);
  }

  bool is_woken(milliseconds time) {
    pollfd wake = {wake_.number(), POLLIN, 0};
    return ::poll(&wake, 1, static_cast<int>(time.count())) > 0;
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsARound; ++i) {
      sockaddr_storage peer{};
      socklen_t size = sizeof peer;
      base::FileDescriptor socket(::accept4(listening_.number(), reinterpret_cast<sockaddr*>(&peer),
                                            &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.is_open()) {
        if (errno == EMFILE || errno == ENFILE) (void)is_woken(kShortage);
        return;
      }
      const int on = 1;
      ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      make_room();
      waiting_.push_back({std::move(socket), now_, text_of(peer, size)});
    }
  }

  void make_room() {
    if (waiting_.size() < options_.most_waiting) return;
    const auto silent =
        std::ranges::find_if(waiting_, [](const Connection& each) { return !each.is_ready; });
    reject(silent == waiting_.end() ? waiting_.begin() : silent);
  }

  std::vector<Connection>::iterator reject(std::vector<Connection>::iterator which) {
    ++num_rejected_;
    storm_.record(now_, which->peer);
    return waiting_.erase(which);
  }

  void look_at_waiting() {
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      const Beginning beginning = each->is_ready ? Beginning::kMembers : look_at(each->socket);
      each->is_ready = beginning == Beginning::kMembers;
      const bool is_late = !each->is_ready && now_ - each->since > options_.patience;
      each = beginning == Beginning::kOthers || is_late ? reject(each) : each + 1;
    }
  }

  Beginning look_at(const base::FileDescriptor& socket) const {
    std::array<char, kPreface.size()> bytes{};
    const ssize_t count = ::recv(socket.number(), bytes.data(), bytes.size(), MSG_PEEK);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Beginning::kNone;
    if (count <= 0) return Beginning::kOthers;
    const std::string_view begin(bytes.data(), static_cast<std::size_t>(count));
    const bool is_plain = options_.opening == Opening::kHttp2;
    const bool is_members = is_plain ? kPreface.starts_with(begin) : begins_tls(begin);
    if (is_plain && begins_tls(begin)) send_no_tls_alert(socket);
    return is_members ? Beginning::kMembers : Beginning::kOthers;
  }

  void forward_ready() {
    allowance_.refill(now_);
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      if (!each->is_ready) {
        ++each;
        continue;
      }
      if (!allowance_.take()) return;
      base::FileDescriptor socket = std::move(each->socket);
      each = waiting_.erase(each);
      on_connection_(std::move(socket));
    }
  }

  const AcceptorOptions options_;
  const base::FileDescriptor listening_;
  const OnConnection on_connection_;
  const base::FileDescriptor wake_;  // an eventfd
  Allowance allowance_;
  ConnectionStormDetector storm_;
  std::vector<Connection> waiting_;       // in the order of arrival
  Clock::time_point now_ = Clock::now();  // of this round
  int num_rejected_ = 0;                  // in this round
  std::jthread thread_;
};

Acceptor::Acceptor(const AcceptorOptions& options, base::FileDescriptor listening,
                   OnConnection on_connection)
    : loop_(std::make_unique<Loop>(options, std::move(listening), std::move(on_connection))) {}

Acceptor::~Acceptor() = default;

}  // namespace brigade::rpc

#include "brigade/cluster/address_check.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/cluster/address.h"

namespace brigade::cluster {
namespace {

using Deadline = std::chrono::steady_clock::time_point;
using Endpoint = base::Handle<addrinfo, freeaddrinfo>;

base::FileDescriptor open_socket(const addrinfo& endpoint) {
  return base::FileDescriptor(
      ::socket(endpoint.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// `ip` is numeric, so there is no look-up.
Endpoint endpoint_of(const std::string& ip, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const bool is_ip = getaddrinfo(ip.c_str(), std::to_string(port).c_str(), &hints, &list) == 0;
  return Endpoint(is_ip ? list : nullptr);
}

// Only an address of this host can be bound; other addresses return nothing.
std::optional<PortState> port_state(const addrinfo& endpoint) {
  const base::FileDescriptor socket = open_socket(endpoint);
  const int on = 1;  // as servers do, so that closing connections do not count
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.number(), endpoint.ai_addr, endpoint.ai_addrlen) == 0) return PortState::kFree;
  if (errno == EADDRINUSE) return PortState::kTaken;
  if (errno == EACCES) return PortState::kForbidden;
  return std::nullopt;
}

struct ConnectResult {
  Reachability reachability = Reachability::kTimedOut;
  std::string detail = {};
};

ConnectResult result_of(int error) {
  if (error == 0) return {Reachability::kReachable};
  if (error == ECONNREFUSED) return {Reachability::kRefused};
  if (error == ETIMEDOUT) return {Reachability::kTimedOut};
  return {Reachability::kUnreachable, std::generic_category().message(error)};
}

// A connection attempt in progress.
struct Attempt {
  std::size_t report;
  base::FileDescriptor socket;
};

class Checker {
 public:
  explicit Checker(const ClusterSpec& cluster) {
    for (const auto& [job, tasks] : cluster.as_map()) {
      for (const auto& [index, address] : tasks) {
        reports_.push_back({.task = {job, index}, .address = address});
      }
    }
    is_settled_.resize(reports_.size(), false);
  }

  std::set<std::string> hosts() const {
    std::set<std::string> hosts;
    for (const AddressReport& report : reports_) hosts.insert(parse_address(report.address).host);
    return hosts;
  }

  void start(const std::map<std::string, HostAddresses>& known) {
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      const Address address = parse_address(reports_[i].address);
      const auto found = known.find(address.host);
      if (found == known.end()) {
        reports_[i].detail = "its name was not looked up in time";
      } else if (found->second.addresses.empty()) {
        settle(i, {Reachability::kNoSuchHost, found->second.failure});
      } else {
        for (const std::string& ip : found->second.addresses) connect(i, ip, address.port);
      }
    }
  }

  void wait_until(Deadline deadline) {
    while (!attempts_.empty()) {
      std::vector<pollfd> watched;
      for (const Attempt& attempt : attempts_)
        watched.push_back({attempt.socket.number(), POLLOUT, 0});
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() < 0) return;
      const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(left.count()));
      if (ready < 0 && errno != EINTR) return;
      if (ready == 0) return;
      if (ready > 0) finish(watched);
    }
  }

  std::vector<AddressReport> reports() && { return std::move(reports_); }

 private:
  void connect(std::size_t report, const std::string& ip, int port) {
    const Endpoint endpoint = endpoint_of(ip, port);
    if (!endpoint) return settle(report, {Reachability::kUnreachable, "it is no IP address"});
    if (const auto state = port_state(*endpoint)) record_port(reports_[report], *state);
    base::FileDescriptor socket = open_socket(*endpoint);
    const bool is_done = socket.number() >= 0 &&
                         ::connect(socket.number(), endpoint->ai_addr, endpoint->ai_addrlen) == 0;
    if (is_done) return settle(report, result_of(0));
    if (errno != EINPROGRESS) return settle(report, result_of(errno));
    attempts_.push_back({report, std::move(socket)});
  }

  static void record_port(AddressReport& report, PortState state) {
    if (report.port.value_or(PortState::kFree) == PortState::kFree) report.port = state;
  }

  void settle(std::size_t report, const ConnectResult& result) {
    AddressReport& entry = reports_[report];
    // A host with several addresses needs one that works.
    const bool is_news = !is_settled_[report] || result.reachability < entry.reachability;
    if (!is_news) return;
    is_settled_[report] = true;
    entry.reachability = result.reachability;
    entry.detail = result.detail;
  }

  void finish(const std::vector<pollfd>& watched) {
    std::vector<Attempt> open;
    for (std::size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].revents == 0) {
        open.push_back(std::move(attempts_[i]));
        continue;
      }
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(watched[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
      settle(attempts_[i].report, result_of(error));
    }
    attempts_.swap(open);
  }

  std::vector<AddressReport> reports_;
  std::vector<bool> is_settled_;
  std::vector<Attempt> attempts_;
};

}  // namespace

std::string_view to_string(Reachability reachability) {
  constexpr std::array<std::string_view, 5> kNames = {"reachable", "refused", "timed out",
                                                      "unreachable", "no such host"};
  return kNames.at(static_cast<std::size_t>(reachability));
}

std::string_view to_string(PortState state) {
  constexpr std::array<std::string_view, 3> kNames = {"free", "taken", "forbidden"};
  return kNames.at(static_cast<std::size_t>(state));
}

bool AddressReport::is_good() const {
  if (reachability == Reachability::kReachable) return true;
  return reachability == Reachability::kRefused &&
         port.value_or(PortState::kFree) == PortState::kFree;
}

std::vector<AddressReport> check_addresses(const ClusterSpec& cluster,
                                           std::chrono::milliseconds timeout,
                                           const HostLookup& lookup) {
  check_argument(timeout.count() > 0 && timeout <= std::chrono::hours(1),
                 "The timeout of a check is from 1 ms to an hour, not ", timeout.count(), " ms.");
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  Checker checker(cluster);
  // Half the time is for names, so that one that hangs leaves time to try the others' addresses.
  checker.start(look_up(checker.hosts(), timeout / 2, lookup));
  checker.wait_until(deadline);
  return std::move(checker).reports();
}

}  // namespace brigade::cluster

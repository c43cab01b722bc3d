#include "brigade/cluster/host_lookup.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/cluster/address.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::cluster {
namespace {

using Answers = std::map<std::string, HostAddresses>;

std::vector<std::string> look_up_by_system(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (failure != 0) throw Error(ErrorCode::kNotFound, gai_strerror(failure));
  const base::Handle<addrinfo, freeaddrinfo> owner(list);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

// The state that the look-up threads share with the caller, which may return before they end.
class Lookups {
 public:
  Lookups(const std::set<std::string>& hosts, HostLookup lookup)
      : lookup_(std::move(lookup)), waiting_(hosts.begin(), hosts.end()), open_(hosts.size()) {}

  void work() {
    while (const auto host = take()) {
      HostAddresses answer = ask(*host);
      const concurrency::MutexLock lock(mutex_);
      answers_[*host] = std::move(answer);
      if (--open_ == 0) done_.notify_all();
    }
  }

  Answers wait_until(std::chrono::steady_clock::time_point deadline) {
    const concurrency::MutexLock lock(mutex_);
    while (open_ > 0 && done_.wait_until(mutex_, deadline)) {
    }
    waiting_.clear();
    return answers_;
  }

 private:
  std::optional<std::string> take() {
    const concurrency::MutexLock lock(mutex_);
    if (waiting_.empty()) return std::nullopt;
    std::string host = std::move(waiting_.back());
    waiting_.pop_back();
    return host;
  }

  HostAddresses ask(const std::string& host) const {
    try {
      return {.addresses = lookup_(host)};
    } catch (const std::exception& error) {
      return {.failure = error.what()};
    }
  }

  const HostLookup lookup_;
  concurrency::Mutex mutex_;
  concurrency::Condition done_;
  std::vector<std::string> waiting_ BRIGADE_GUARDED_BY(mutex_);
  std::size_t open_ BRIGADE_GUARDED_BY(mutex_);
  Answers answers_ BRIGADE_GUARDED_BY(mutex_);
};

/// To an IP address; no name is asked for.
std::optional<std::string> source_address_to(const std::string& ip_address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(ip_address.c_str(), "9", &hints, &found) != 0) return std::nullopt;
  const base::Handle<addrinfo, freeaddrinfo> owner(found);
  const base::FileDescriptor socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return std::nullopt;
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  const bool is_known = ::connect(socket.number(), found->ai_addr, found->ai_addrlen) == 0 &&
                        getsockname(socket.number(), reinterpret_cast<sockaddr*>(&own), &size) == 0;
  char text[NI_MAXHOST] = {};
  if (!is_known || getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr,
                               0, NI_NUMERICHOST) != 0)
    return std::nullopt;
  return std::string(text);
}

}  // namespace

HostLookup system_lookup() {
  return look_up_by_system;
}

Answers look_up(const std::set<std::string>& hosts, std::chrono::milliseconds timeout,
                const HostLookup& lookup) {
  constexpr std::size_t kMostThreads = 32;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto lookups = std::make_shared<Lookups>(hosts, lookup);
  for (std::size_t i = 0; i < std::min(hosts.size(), kMostThreads); ++i) {
    std::thread([lookups] { lookups->work(); }).detach();
  }
  return lookups->wait_until(deadline);
}

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

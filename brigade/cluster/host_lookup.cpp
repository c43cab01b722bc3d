#include "brigade/cluster/host_lookup.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::cluster {
namespace {

using Answers = std::map<std::string, HostAddresses>;

std::vector<std::string> ask_the_system(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (failure != 0) throw Error(ErrorCode::kNotFound, gai_strerror(failure));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
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

}  // namespace

HostLookup system_lookup() {
  return ask_the_system;
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

}  // namespace brigade::cluster

#include "brigade/launch/hosts.h"

#include <poll.h>
#include <signal.h>

#include <exception>
#include <thread>

#include "brigade/launch/mailbox.h"

namespace brigade::launch {
namespace {

struct JoinResult {
  std::unique_ptr<Hosts> hosts = nullptr;
  std::exception_ptr error = nullptr;
};

/// The next signal that asks this process to stop.
std::optional<int> stop_signal(SignalSource& signals) {
  while (const auto signal = signals.next()) {
    if (*signal == SIGINT || *signal == SIGTERM || *signal == SIGHUP) return signal;
  }
  return std::nullopt;
}

class SingleHost final : public Hosts {
 public:
  explicit SingleHost(const JobOptions& options) : processes_({options.processes}) {
    if (options.roles) addresses_ = free_addresses(*options.roles, 0, "127.0.0.1");
  }

  int self() const override { return 0; }
  int rendezvous_round() const override { return 0; }
  const std::vector<int>& processes() const override { return processes_; }
  const std::vector<std::string>& addresses() const override { return addresses_; }
  std::string name(int) const override { return "this host"; }
  void send(const Message& message) override { messages_.put(message); }
  int descriptor() const override { return messages_.descriptor(); }
  std::vector<Message> take() override { return messages_.take(); }
  std::optional<LostHost> lost_host() const override { return std::nullopt; }
  void leave() noexcept override {}

 private:
  const std::vector<int> processes_;
  std::vector<std::string> addresses_;
  Mailbox<Message> messages_;
};

}  // namespace

std::variant<std::unique_ptr<Hosts>, int> join_hosts_or_signal(const JobOptions& options, int round,
                                                               SignalSource& signals) {
  if (options.hosts.count == 1) return std::make_unique<SingleHost>(options);
  const concurrency::CancelToken cancel;
  Mailbox<JoinResult> results;
  const std::jthread joining([&] {
    JoinResult result;
    try {
      result.hosts = join_hosts(options, round, cancel);
    } catch (...) {
      result.error = std::current_exception();
    }
    results.put(std::move(result));
  });
  std::optional<int> stop;
  for (;;) {
    pollfd both[] = {{.fd = signals.descriptor(), .events = POLLIN, .revents = 0},
                     {.fd = results.descriptor(), .events = POLLIN, .revents = 0}};
    ::poll(both, 2, -1);
    if (!stop) stop = stop_signal(signals);
    if (stop) cancel.cancel();
    for (JoinResult& result : results.take()) {
      if (result.hosts) {
        // Joined all the same: the other hosts have to know of the signal.
        if (stop) result.hosts->send(SignalReceived{result.hosts->self(), *stop});
        return std::move(result.hosts);
      }
      if (stop) return *stop;
      std::rethrow_exception(result.error);
    }
  }
}

}  // namespace brigade::launch

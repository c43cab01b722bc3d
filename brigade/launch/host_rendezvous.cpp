#include "brigade/launch/meeting.h"

#include <poll.h>
#include <signal.h>

#include <exception>
#include <thread>

#include "brigade/launch/mailbox.h"

namespace brigade::launch {

namespace {

struct Outcome {
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

}  // namespace

std::variant<std::unique_ptr<Hosts>, int> meet_unless_told(const JobOptions& options, int number,
                                                           SignalSource& signals) {
  if (options.hosts.count == 1) return make_lone_host(options.processes);
  const concurrency::CancelToken cancel;
  Mailbox<Outcome> outcome;
  const std::jthread meeting([&] {
    Outcome found;
    try {
      found.hosts = meet_hosts(options, number, cancel);
    } catch (...) {
      found.error = std::current_exception();
    }
    outcome.put(std::move(found));
  });
  std::optional<int> told;
  for (;;) {
    pollfd both[] = {{.fd = signals.descriptor(), .events = POLLIN, .revents = 0},
                     {.fd = outcome.descriptor(), .events = POLLIN, .revents = 0}};
    ::poll(both, 2, -1);
    if (!told) told = stop_signal(signals);
    if (told) cancel.cancel();
    for (Outcome& found : outcome.take()) {
      if (found.hosts) {
        // Just met: the others have to hear of it.
        if (told) found.hosts->send(SignalCame{found.hosts->self(), *told});
        return std::move(found.hosts);
      }
      if (told) return *told;
      std::rethrow_exception(found.error);
    }
  }
}

}  // namespace brigade::launch

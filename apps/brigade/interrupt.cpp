#include "apps/brigade/interrupt.h"

#include <atomic>
#include <csignal>

namespace brigade::command {
namespace {

// A signal handler can reach nothing else than a global.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void set_default_actions() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void remember(int signal) {
  received_signal.store(signal);
  set_default_actions();  // the next one, of either kind, ends the process
}

}  // namespace

Interrupt::Interrupt() {
  received_signal.store(0);
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Interrupt::~Interrupt() {
  set_default_actions();
}

std::optional<int> Interrupt::received() const {
  const int signal = received_signal.load(std::memory_order_relaxed);
  if (signal == 0) return std::nullopt;
  return signal;
}

std::string_view signal_name(int signal) {
  return signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

ExitCode exit_code_after(int signal) {
  return signal == SIGTERM ? kRestartMe : kInterrupted;
}

}  // namespace brigade::command

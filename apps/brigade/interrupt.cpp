#include "apps/brigade/interrupt.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>

#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

// A signal handler can reach nothing else than a global.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void set_action(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, each);
  sigaction(signal, &action, nullptr);
}

// Handlers are the process's, so instances are counted for all of it.
std::mutex instances_mutex;
int instances = 0;             // guarded by it, as is the next
bool is_hangup_obeyed = true;  // by the outermost instance

// As under nohup: a closing terminal does not end this process.
bool ignores_hangup() {
  struct sigaction action {};
  sigaction(SIGHUP, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

void remember(int signal) {
  received_signal.store(signal);
  set_action(SIGINT, SIG_DFL);  // the next one, of either kind, ends the process
  set_action(SIGTERM, SIG_DFL);
  // A closing terminal may send SIGHUP twice, by its shell and by the kernel; that is no request to
  // stop immediately.
  set_action(SIGHUP, SIG_IGN);
}

// A signal handler cannot wake a thread, so a thread polls.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

Interrupt::Interrupt() {
  const std::lock_guard lock(instances_mutex);
  if (++instances > 1) return;
  is_hangup_obeyed = !ignores_hangup();
  received_signal.store(0);
  set_action(SIGINT, remember);
  set_action(SIGTERM, remember);
  if (is_hangup_obeyed) set_action(SIGHUP, remember);
}

Interrupt::~Interrupt() {
  const std::lock_guard lock(instances_mutex);
  if (--instances > 0) return;
  set_action(SIGINT, SIG_DFL);
  set_action(SIGTERM, SIG_DFL);
  // A second SIGHUP of the same terminal must not kill a process that has already saved.
  if (is_hangup_obeyed && received() != SIGHUP) set_action(SIGHUP, SIG_DFL);
}

std::optional<int> Interrupt::received() const {
  const int signal = received_signal.load(std::memory_order_relaxed);
  if (signal == 0) return std::nullopt;
  return signal;
}

std::string_view signal_name(int signal) {
  if (signal == SIGHUP) return "SIGHUP";
  return signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

ExitCode exit_code_after(int signal) {
  return signal == SIGINT ? kInterrupted : kRestartMe;
}

StartWatch::StartWatch(const Interrupt& interrupt, const StartWatchOptions& options)
    : options_(options),
      interrupt_(interrupt),
      watcher_([this](const std::stop_token& end) { watch(end); }) {}

void StartWatch::watch(const std::stop_token& end) {
  std::unique_lock lock(mutex_);
  const auto look_later = [&] { ended_.wait_for(lock, end, kLook, [] { return false; }); };
  while (!end.stop_requested() && !interrupt_.received()) look_later();
  const auto signaled = std::chrono::steady_clock::now();
  const bool is_patient = options_.patience.count() > 0;
  while (is_patient && !end.stop_requested() && !is_patience_over(signaled)) look_later();
  lock.unlock();
  const bool is_in_time = is_patient && end.stop_requested();
  if (interrupt_.received() && !is_in_time) options_.token.cancel();
}

bool StartWatch::is_patience_over(std::chrono::steady_clock::time_point signaled) const {
  const auto since = options_.waiting_since ? options_.waiting_since() : std::optional(signaled);
  const auto now = std::chrono::steady_clock::now();
  return since && now - std::max(*since, signaled) >= options_.patience;
}

void StartWatch::throw_if_stopped(const std::string& waiting_for) const {
  const auto signal = interrupt_.received();
  if (!signal) return;
  throw StoppedBySignal(*signal,
                        base::str_cat("stopped by ", signal_name(*signal), " while waiting for ",
                                      waiting_for, "; nothing had begun"));
}

}  // namespace brigade::command

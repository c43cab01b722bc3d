#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "apps/brigade/exit_code.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::command {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP is remembered instead of ending the process,
/// so that a step can finish and its result be saved. A later SIGINT or SIGTERM ends the process
/// immediately, as if this did not exist; a SIGHUP does not, because a closing terminal may send
/// several. A process that ignores SIGHUP, as under nohup, still ignores it. Instances within
/// another's life belong to it: they see the same signal, so that none is lost between two of them.
///
/// Thread-safety: instances may be made and used in any thread.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// The signal's number, or nothing.
  std::optional<int> received() const;
};

/// "SIGINT", "SIGTERM" or "SIGHUP".
std::string_view signal_name(int signal);

/// The exit code after `signal`: kInterrupted or kRestartMe.
ExitCode exit_code_after(int signal);

/// A signal ended the work before its result. `what` is one human-readable line, or empty if all
/// was said.
class StoppedBySignal : public std::runtime_error {
 public:
  StoppedBySignal(int signal, const std::string& what)
      : std::runtime_error(what), code_(exit_code_after(signal)) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

struct StartWatchOptions {
  /// The token to cancel.
  concurrency::CancelToken token = {};
  /// The time from the signal to the cancelling: for work that should end by itself first.
  std::chrono::milliseconds patience{0};
  /// When the wait began that the token ends, nothing if nobody waits now: the patience does not
  /// begin earlier. Unset: it begins with the signal. Called by the watching thread.
  std::function<std::optional<std::chrono::steady_clock::time_point>()> waiting_since = {};
};

/// While it lives, the first SIGINT or SIGTERM cancels a token instead of ending the process, so
/// that a wait for others can be ended in an orderly way. The second one ends the process
/// immediately.
class StartWatch {
 public:
  /// Watches the signals of `interrupt`, which must outlive this.
  explicit StartWatch(const Interrupt& interrupt, const StartWatchOptions& options = {});
  const concurrency::CancelToken& token() const { return options_.token; }

  /// Calls `start` and returns its result. Throws StoppedBySignal if a signal came meanwhile, even
  /// if `start` succeeded. `waiting_for` names what the process was waiting for, for the message.
  template <class Start>
  auto guard(const std::string& waiting_for, Start&& start) {
    auto made = attempt(waiting_for, start);
    throw_if_stopped(waiting_for);
    return made;
  }

  /// The same, but if `start` succeeds in spite of a signal, its result is returned.
  template <class Start>
  auto attempt(const std::string& waiting_for, Start&& start) {
    try {
      return start();
    } catch (const Error&) {
      throw_if_stopped(waiting_for);
      throw;
    }
  }

 private:
  void throw_if_stopped(const std::string& waiting_for) const;
  void watch(const std::stop_token& end);
  bool is_patience_over(std::chrono::steady_clock::time_point signaled) const;

  const StartWatchOptions options_;
  const Interrupt& interrupt_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread watcher_;
};

}  // namespace brigade::command

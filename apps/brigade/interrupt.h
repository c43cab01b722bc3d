#pragma once

#include <optional>
#include <string_view>

#include "apps/brigade/exit_code.h"

namespace brigade::command {

/// While it lives, the first SIGINT, SIGTERM or SIGHUP is remembered instead of ending the process,
/// so that a step can finish and its result be saved. A later SIGINT or SIGTERM ends the process
/// immediately, as if this did not exist; a SIGHUP does not, because a closing terminal may send
/// several. A process that ignores SIGHUP, as under nohup, still ignores it. Only one instance may
/// exist at a time.
///
/// Thread-safety: `received` from any thread.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// The signal's number, or nothing.
  std::optional<int> received() const;

 private:
  enum class Hangups { kObeyed, kIgnored };
  const Hangups hangups_;
};

/// "SIGINT", "SIGTERM" or "SIGHUP".
std::string_view signal_name(int signal);

/// The exit code after `signal`: kInterrupted or kRestartMe.
ExitCode exit_code_after(int signal);

}  // namespace brigade::command

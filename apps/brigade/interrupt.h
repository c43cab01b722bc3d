#pragma once

#include <optional>
#include <string_view>

#include "apps/brigade/exit_code.h"

namespace brigade::command {

/// While it lives, the first SIGINT or SIGTERM is remembered instead of ending the process, so that
/// a step can finish and its result be saved. The second one ends the process at once, as if this
/// did not exist. One at a time.
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
};

/// "SIGINT" or "SIGTERM".
std::string_view signal_name(int signal);

/// The exit code after `signal`: kInterrupted or kRestartMe.
ExitCode exit_code_after(int signal);

}  // namespace brigade::command

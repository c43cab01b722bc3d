#pragma once

#include <optional>
#include <string>

namespace brigade::launch {

/// How a process ended: by itself, with a code, or by a signal.
///
/// Thread-safety: a value.
struct ExitStatus {
  std::optional<int> code = std::nullopt;
  std::optional<int> signal = std::nullopt;

  /// Of what waitpid gave.
  static ExitStatus of_wait(int status);

  bool is_success() const { return code == 0; }
  /// As a shell has it: the code, or 128 and the signal.
  int as_code() const { return code ? *code : 128 + signal.value_or(0); }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// What a supervisor makes of it.
enum class ExitKind {
  kDone,
  kRestartMe,    ///< 75: it saved, and wants to be started again
  kInterrupted,  ///< 130, or SIGINT
  kUsage,        ///< 2: wrong usage or configuration, which a restart does not mend
  kFailed        ///< anything else, among it every other signal
};

ExitKind exit_kind_of(const ExitStatus& status);

/// Whether it was taken away from outside (by SIGKILL, as the kernel does when memory is short, or
/// another signal), rather than by a fault of its own (SIGSEGV, SIGABRT and their like).
bool is_lost(const ExitStatus& status);

/// "exit code 1", "signal 9 (SIGKILL)".
std::string to_string(const ExitStatus& status);

/// "SIGKILL"; the number where it has no name.
std::string signal_text(int signal);

}  // namespace brigade::launch

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace brigade::launch {

/// How a process ended: with an exit code, or by a signal.
///
/// Thread-safety: a value.
struct ExitStatus {
  std::optional<int> code = std::nullopt;
  std::optional<int> signal = std::nullopt;

  /// Converts the status that waitpid returned.
  static ExitStatus of_wait(int status);

  bool is_success() const { return code == 0; }
  /// The exit code as a shell reports it: the code, or 128 + the signal.
  int as_code() const { return code ? *code : 128 + signal.value_or(0); }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// The exit codes of programs that mean something to a launcher.
inline constexpr int kUsageCode = 2;
inline constexpr int kRestartMeCode = 75;
inline constexpr int kInterruptedCode = 130;

/// What an exit status means to a supervisor.
enum class ExitKind {
  kDone,
  kRestartMe,    ///< 75: it saved its state and asks to be restarted
  kInterrupted,  ///< 130, or SIGINT
  kUsage,        ///< 2: wrong usage or configuration, which a restart does not fix
  kFailed        ///< anything else, including every other signal
};

ExitKind exit_kind_of(const ExitStatus& status);

/// Whether the process was killed from outside (SIGKILL, as the kernel sends when memory is short,
/// or another signal), not by its own fault (SIGSEGV, SIGABRT and similar).
bool is_lost(const ExitStatus& status);

/// "exit code 1", "signal 9 (SIGKILL)".
std::string to_string(const ExitStatus& status);

/// "SIGKILL"; the number if the signal has no name.
std::string signal_text(int signal);

/// The state of another process when one failed.
struct OtherRank {
  int rank = 0;
  bool was_running = false;
  std::string text = {};  ///< "rank 1 was running; it last said: step 12"
};

/// How one process of a job failed, and the state of the others at that time.
struct RankFailure {
  int rank = 0;           ///< -1: a whole host
  std::string task = {};  ///< "worker:1"; empty in a job without roles
  ExitStatus status;
  /// "exit code 1", "signal 9 (SIGKILL)", "it has not been heard from for 10 s".
  std::string reason;
  std::chrono::milliseconds after{0};  ///< since the processes were started
  int generation = 0;
  std::vector<std::string> last_lines;
  std::vector<OtherRank> others;
  std::string elsewhere = {};  ///< another host, whose launcher has the details: "host 1 (b)"
};

/// Human-readable text of several lines.
std::string to_string(const RankFailure& failure);

}  // namespace brigade::launch

#include "brigade/launch/exit_status.h"

#include <string.h>
#include <sys/wait.h>

#include <csignal>

#include "brigade/base/strings.h"

namespace brigade::launch {

ExitStatus ExitStatus::of_wait(int status) {
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status)};
}

ExitKind exit_kind_of(const ExitStatus& status) {
  if (status.is_success()) return ExitKind::kDone;
  if (status.code == kRestartMeCode) return ExitKind::kRestartMe;
  if (status.code == kInterruptedCode || status.signal == SIGINT) return ExitKind::kInterrupted;
  if (status.code == kUsageCode) return ExitKind::kUsage;
  return ExitKind::kFailed;
}

bool is_lost(const ExitStatus& status) {
  if (!status.signal) return false;
  for (const int fault : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    if (*status.signal == fault) return false;
  }
  return true;
}

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? std::to_string(signal) : base::str_cat("SIG", name);
}

std::string to_string(const ExitStatus& status) {
  if (status.code) return base::str_cat("exit code ", *status.code);
  return base::str_cat("signal ", *status.signal, " (", signal_text(*status.signal), ")");
}

std::string to_string(const RankFailure& failure) {
  if (failure.rank < 0) return failure.reason;
  const std::string name =
      failure.task.empty() ? base::str_cat("Rank ", failure.rank) : failure.task;
  std::string text = base::str_cat(name, failure.elsewhere.empty() ? "" : " on ", failure.elsewhere,
                                   " failed first: ", failure.reason, ", ",
                                   static_cast<double>(failure.after.count()) / 1e3,
                                   " s after the start of generation ", failure.generation, ".");
  if (!failure.elsewhere.empty()) text += " The launcher there says how.";
  if (!failure.last_lines.empty()) {
    text += "\n  its last lines:";
    for (const std::string& line : failure.last_lines) text += base::str_cat("\n    ", line);
  }
  for (const OtherRank& other : failure.others) text += base::str_cat("\n  ", other.text);
  return text;
}

}  // namespace brigade::launch

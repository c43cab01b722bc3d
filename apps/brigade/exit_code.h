#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::command {

/// The exit codes of the command.
enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,         ///< Wrong usage, configuration or input, found before any work.
  kRestartMe = 75,    ///< SIGTERM: saved, restart me.
  kInterrupted = 130  ///< SIGINT.
};

/// An error that the user must fix before the command can begin: exit 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whether an error of this code, thrown while a command prepares its work, is one that the user
/// can fix.
bool is_user_error(ErrorCode code);

/// The error's text, with the flag that allows what was refused, if there is one: the library's
/// errors do not name flags.
std::string text_with_flag(const Error& error);

/// Calls `prepare`, turning errors that the user can fix into UsageError. For everything that a
/// command does before its work begins; the same errors later are failures (exit 1).
template <class Prepare>
auto set_up(Prepare&& prepare) {
  try {
    return std::forward<Prepare>(prepare)();
  } catch (const Error& error) {
    if (is_user_error(error.code())) throw UsageError(text_with_flag(error));
    throw;
  }
}

/// Throws UsageError that names `word`, the allowed values, and the nearest of them, unless `word`
/// is one of `allowed`. `what` says what it is: "dataset".
void check_choice(std::string_view what, const std::string& word,
                  const std::vector<std::string>& allowed);

/// Writes `brigade: error: ...` as one line to standard error, whatever the exception, fit for a
/// terminal (`base::printable`); never a stack trace. Returns the exit code for it.
int report_error(const std::exception& error);

}  // namespace brigade::command

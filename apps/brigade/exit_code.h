#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::command {

/// What the process tells whoever started it.
enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,         ///< Wrong usage, configuration or input, found before any work.
  kRestartMe = 75,    ///< SIGTERM: saved, start me again.
  kInterrupted = 130  ///< SIGINT.
};

/// Something that the user must mend before the command can begin: exit 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whether an error of this code, met while a command prepares its work, is the user's to mend.
bool is_users_to_mend(ErrorCode code);

/// Its text, with the flag that allows what was refused, where there is one: the library's errors
/// know no flags.
std::string text_with_flag(const Error& error);

/// Calls `prepare`, turning errors that are the user's to mend into UsageError. For all that a
/// command does before its work begins; the same errors later are failures (exit 1).
template <class Prepare>
auto set_up(Prepare&& prepare) {
  try {
    return std::forward<Prepare>(prepare)();
  } catch (const Error& error) {
    if (is_users_to_mend(error.code())) throw UsageError(text_with_flag(error));
    throw;
  }
}

/// Throws UsageError that names the word, the words allowed, and the nearest of them, unless `word`
/// is one of `allowed`. `what` says what it is: "dataset".
void check_choice(std::string_view what, const std::string& word,
                  const std::vector<std::string>& allowed);

/// Writes `brigade: error: ...` as one line to standard error, whatever the exception, fit for a
/// terminal (`base::printable`); never a stack trace. Returns the exit code that belongs to it.
int report_error(const std::exception& error);

}  // namespace brigade::command

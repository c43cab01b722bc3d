#pragma once

#include <exception>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/text_piece.h"

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
  /// The message is all pieces, one after the other, as `base::str_cat` writes them.
  template <class... Pieces>
  explicit UsageError(const Pieces&... pieces) : UsageError({base::TextPiece(pieces)...}) {}
  explicit UsageError(std::initializer_list<base::TextPiece> pieces);
};

/// Whether an error of this code, thrown while a command prepares its work, is one that the user
/// can fix.
bool is_user_error(ErrorCode code);

/// Calls `prepare`, turning errors that the user can fix into UsageError. For everything that a
/// command does before its work begins; the same errors later are failures (exit 1).
template <class Prepare>
auto set_up(Prepare&& prepare) {
  try {
    return std::forward<Prepare>(prepare)();
  } catch (const Error& error) {
    if (is_user_error(error.code())) throw UsageError(error.what());
    throw;
  }
}

/// Writes `brigade: error: ...` as one line to standard error, whatever the exception, fit for a
/// terminal (`base::printable`); never a stack trace. Returns the exit code for it.
int report_error(const std::exception& error);

/// What `main` returns: the exit code of `run`, or of what it throws, reported. First closed
/// standard streams get placeholders, so that no file opened later gets their descriptors and the
/// output written to them (writing to a placeholder still fails), and a file that outgrows
/// `ulimit -f` becomes an error with a message. If the code is 0 but standard output could not be
/// written (disk full, output closed), it is 1, with a line on standard error.
int run_program(const std::function<int()>& run);

}  // namespace brigade::command

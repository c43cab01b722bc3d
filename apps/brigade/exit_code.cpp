#include "apps/brigade/exit_code.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <new>

#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

constexpr int kErrorPatienceMs = 2000;

std::string one_line(std::string text) {
  constexpr std::size_t kLongest = 8192;  // of a parser's own message, which may quote anything
  text = base::trim(text);
  if (text.size() > kLongest) {
    text = base::str_cat(text.substr(0, kLongest), "... (", text.size(), " bytes)");
  }
  for (char& character : text) {
    if (character == '\n' || character == '\r') character = ' ';
  }
  return base::printable(text);
}

std::string without_memory() {
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return base::str_cat("out of memory",
                       is_limited ? base::str_cat("; this process may have ",
                                                  base::human_bytes(limit.rlim_cur), " (ulimit -v)")
                                  : "");
}

std::string text_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? without_memory() : error.what();
}

/// Whether standard error can be written: a reader that does not read must not keep the command
/// from ending.
bool can_write_errors() {
  pollfd one{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&one, 1, kErrorPatienceMs) == 1;
}

void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // Opened the wrong way round; the lowest free number is given.
    ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// Flushes it. Returns `code`, or a failure's if the output is lost.
int finish_standard_output(int code) {
  errno = 0;
  std::cout.flush();
  if (std::cout || code != kDone) return code;
  const std::string reason = errno == 0 ? "" : base::str_cat(": ", std::strerror(errno));
  return report_error(Error(ErrorCode::kUnavailable, "standard output cannot be written", reason,
                            "; the output is lost"));
}

}  // namespace

UsageError::UsageError(std::initializer_list<base::TextPiece> pieces)
    : std::runtime_error(base::concatenate(pieces)) {}

bool is_user_error(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kPermissionDenied:
    case ErrorCode::kDataLoss:            // a broken input file
    case ErrorCode::kFailedPrecondition:  // a device that cannot be used as asked
    case ErrorCode::kUnimplemented:       // not in this build
      return true;
    default:
      return false;
  }
}

int report_error(const std::exception& error) {
  const bool is_usage = dynamic_cast<const UsageError*>(&error) != nullptr;
  std::cout.flush();
  if (can_write_errors()) std::cerr << "brigade: error: " << one_line(text_of(error)) << std::endl;
  return is_usage ? kUsage : kFailed;
}

int run_program(const std::function<int()>& run) {
  reserve_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return finish_standard_output(run());
  } catch (const std::exception& error) {
    return finish_standard_output(report_error(error));
  }
}

}  // namespace brigade::command

#include "apps/brigade/exit_code.h"

#include <poll.h>
#include <unistd.h>

#include <iostream>

#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

constexpr int kErrorPatienceMs = 2000;

std::string one_line(std::string text) {
  text = base::trim(text);
  for (char& character : text) {
    if (character == '\n' || character == '\r') character = ' ';
  }
  return text;
}

/// Whether standard error takes something: who does not read it must not keep a command from
/// ending.
bool can_write_errors() {
  pollfd one{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&one, 1, kErrorPatienceMs) == 1;
}

}  // namespace

bool is_users_to_mend(ErrorCode code) {
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

void check_choice(std::string_view what, const std::string& word,
                  const std::vector<std::string>& allowed) {
  for (const std::string& candidate : allowed) {
    if (word == candidate) return;
  }
  const auto near = base::nearest(word, allowed);
  throw UsageError(base::str_cat("unknown ", what, " '", word, "'",
                                 near ? base::str_cat("; did you mean '", *near, "'?") : ".",
                                 " Known: ", base::join(allowed, ", ")));
}

int report_error(const std::exception& error) {
  const bool is_usage = dynamic_cast<const UsageError*>(&error) != nullptr;
  std::cout.flush();
  if (can_write_errors()) std::cerr << "brigade: error: " << one_line(error.what()) << std::endl;
  return is_usage ? kUsage : kFailed;
}

}  // namespace brigade::command

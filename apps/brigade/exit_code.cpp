#include "apps/brigade/exit_code.h"

#include <iostream>

#include "brigade/base/strings.h"
#include "brigade/device/oversubscription_error.h"

namespace brigade::command {
namespace {

std::string one_line(std::string text) {
  text = base::trim(text);
  for (char& character : text) {
    if (character == '\n' || character == '\r') character = ' ';
  }
  return text;
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

std::string text_with_flag(const Error& error) {
  const bool is_allowed_by_flag =
      dynamic_cast<const device::OversubscriptionError*>(&error) != nullptr;
  return base::str_cat(error.what(), is_allowed_by_flag ? " (--allow-oversubscription)" : "");
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
  std::cerr << "brigade: error: " << one_line(error.what()) << std::endl;
  return is_usage ? kUsage : kFailed;
}

}  // namespace brigade::command
